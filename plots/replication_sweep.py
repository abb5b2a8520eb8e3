# SPDX-License-Identifier: Apache-2.0
"""How a sparse persistent layer's gain on dense libraries goes with density, size and batch, as predicted and as
measured. Reads rows of `onchip reproduce all --format csv`."""
from style import BLUE, GREEN, GREY, fail, number, parser, percent, plt, read_csv, save, write_dump

COLUMNS = ["claim", "verdict", "hidden", "batch", "density", "there", "published_chip", "here_chip", "here", "measured"]
# Claim, column of the axis, its label.
PANELS = [("sweep_density", "density", "density of the weights"), ("sweep_size", "hidden", "hidden units"),
          ("sweep_batch", "batch", "batch")]


def main():
    options = parser(__doc__, data="rows of onchip reproduce all").parse_args()
    rows = read_csv(options.data, COLUMNS)
    figure, all_axes = plt.subplots(1, len(PANELS), figsize=(7.2, 3.1), sharey=True)
    drawn, values = [], []
    for axes, (claim, axis, label) in zip(all_axes, PANELS):
        points = [row for row in rows if row["claim"] == claim]
        if not points:
            fail(f"{options.data}: no claim {claim}")
        x = [number(row, axis) for row in points]
        axes.set(xscale="log", yscale="log", xlabel=label)
        for column, color, marker, name in (("there", GREY, "o", f"model, {points[0]['published_chip']}"),
                                            ("here", BLUE, "s", f"model, {points[0]['here_chip']}"),
                                            ("measured", GREEN, "^", "measured")):
            known = [(at, number(row, column)) for at, row in zip(x, points) if row[column]]
            if not known:
                continue
            axes.plot(*zip(*known), color=color, marker=marker, markersize=6 if column == "measured" else 4,
                      linestyle="none" if column == "measured" else "-", linewidth=1.2)
            values += [value for _, value in known]
            drawn += [[claim, at, name, value] for at, value in known]
        fixed = {"density": lambda row: percent(number(row, "density")), "hidden": lambda row: f"H={row['hidden']}",
                 "batch": lambda row: f"B={row['batch']}"}
        axes.set_title(" ".join(text(points[0]) for name, text in fixed.items() if name != axis), fontsize=9)
        if axis == "density":
            axes.invert_xaxis()
        axes.xaxis.set_minor_locator(plt.NullLocator())
        axes.xaxis.set_major_locator(plt.FixedLocator(x))
        axes.xaxis.set_major_formatter(plt.FuncFormatter(
            (lambda value, _: percent(value)) if axis == "density" else (lambda value, _: f"{value:g}")))
        axes.yaxis.set_minor_locator(plt.NullLocator())
        axes.grid(True, axis="y")
    low, high = min(values), max(values)
    all_axes[0].yaxis.set_major_locator(plt.FixedLocator([t for t in (1, 2, 3, 5, 10, 20, 30, 50, 100)
                                                          if low / 1.3 <= t <= high * 1.3]))
    all_axes[0].yaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
    all_axes[0].set_ylabel("times as fast as cuBLAS and cuDNN")
    figure.subplots_adjust(left=0.08, right=0.98, top=0.74, bottom=0.17, wspace=0.1)
    figure.text(0.02, 0.93, "What a sparse persistent layer gains on dense libraries", fontsize=11, weight="bold")
    at = 0.08
    for name, color, marker in ((f"model, {rows_chip(rows, 'published_chip')}", GREY, "o"),
                                (f"model, {rows_chip(rows, 'here_chip')}", BLUE, "s"), ("measured", GREEN, "^")):
        if any(name == row[2] for row in drawn):
            figure.add_artist(plt.Line2D([at], [0.86], marker=marker, color=color, markersize=5, linestyle="none"))
            figure.text(at + 0.012, 0.86, name, color=color, fontsize=8, va="center")
            at += 0.17
    save(figure, options.output)
    write_dump(options.dump, ["claim", "at", "who", "value"], drawn)


def rows_chip(rows, column):
    return next((row[column] for row in rows if row["claim"] == PANELS[0][0]), "")


if __name__ == "__main__":
    main()
