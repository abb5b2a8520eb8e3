# SPDX-License-Identifier: Apache-2.0
"""What fits on a chip, by hidden units and density or batch: the step time where it fits, else what there is too little
of. A panel for each value of other keys that vary. Reads rows of `onchip sweep`."""
import math

from matplotlib.colors import LogNorm

from style import GREY, INK, LIGHT, fail, number, parser, percent, plt, read_csv, save, varied, write_dump

KEYS = ["chip", "cell", "precision", "mask", "seed", "batch", "density"]  # that panels may differ in
MOST_PANELS = 6
SHORT = {"registers": "reg", "shared_memory": "smem", "sms": "SMs", "l2": "L2"}


def name(column, value):
    return percent(float(value)) if column == "density" else value


def main():
    p = parser(__doc__, data="rows of onchip sweep")
    p.add_argument("--rows", default="density", metavar="COLUMN", help="what stands below one another: density, batch")
    options = p.parse_args()
    rows = read_csv(options.data, ["hidden", options.rows, "fits", "binding", "step_us"])
    if not rows:
        fail(f"{options.data}: no rows")
    of_panels = {column: values for column, values in varied(rows, KEYS + [c for c in rows[0] if "." in c]).items()
                 if column != options.rows and len(values) > 1}
    panels = {}  # what is the same in it -> (hidden, row's value) -> row; the last where there are several
    for row in rows:
        title = ", ".join(f"{column} {name(column, row[column])}" for column in of_panels)
        panels.setdefault(title, {})[number(row, "hidden"), row[options.rows]] = row
    if len(panels) > MOST_PANELS:
        fail(f"expected at most {MOST_PANELS} panels, found {len(panels)}, as {', '.join(of_panels)} vary")
    cells = {key for panel in panels.values() for key in panel}
    sizes = sorted({hidden for hidden, _ in cells})
    values = sorted({value for _, value in cells}, key=float)
    times = [number(row, "step_us") for panel in panels.values() for row in panel.values() if row["step_us"]]
    scale = LogNorm(min(times, default=1), max(times, default=1) * 1.0001)

    # Numbers stand where they can be read.
    columns = 1 if len(sizes) > 8 or len(panels) == 1 else 2
    lines = math.ceil(len(panels) / columns)
    width, panel_height = 7.2, 0.5 + 0.3 * len(values)
    height = 0.8 + lines * panel_height + 0.3
    cell_inches = (width - 0.75 - 0.5 * (columns - 1) - 0.15) / columns / len(sizes)
    has_text = cell_inches > 0.34
    figure = plt.figure(figsize=(width, height))
    drawn = []
    for i, (title, panel) in enumerate(panels.items()):
        x = 0.75 + (i % columns) * (cell_inches * len(sizes) + 0.5)
        y = height - 0.8 - (i // columns + 1) * panel_height + 0.2
        axes = figure.add_axes((x / width, y / height, cell_inches * len(sizes) / width, 0.3 * len(values) / height))
        for (hidden, value), row in panel.items():
            at = sizes.index(hidden), values.index(value)
            fits = row["fits"] in ("true", "1")
            us = number(row, "step_us") if fits and row["step_us"] else None
            shade = 0.12 + 0.75 * scale(us) if us else 0
            axes.add_patch(plt.Rectangle((at[0] - 0.5, at[1] - 0.5), 1, 1, linewidth=0.8, edgecolor="white",
                                         facecolor=plt.get_cmap("Blues")(shade) if fits else LIGHT,
                                         hatch="" if fits else "////"))
            text = f"{us:.3g}" if us else "" if fits else SHORT.get(row["binding"], row["binding"])
            if has_text:
                axes.text(*at, text, ha="center", va="center", fontsize=7 if fits else 6,
                          color="white" if shade > 0.55 else INK,
                          bbox=None if fits else {"facecolor": LIGHT, "edgecolor": "none", "pad": 0.8})
            drawn.append([title, hidden, value, row["fits"], us if us else row["binding"]])
        axes.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(-0.5, len(values) - 0.5))
        every = max(1, math.ceil(0.42 / cell_inches))
        axes.set_xticks(range(0, len(sizes), every), [f"{size:g}" for size in sizes[::every]], fontsize=7.5)
        axes.set_yticks(range(len(values)), [name(options.rows, value) for value in values], fontsize=7.5)
        axes.set_title(title, fontsize=8.5, weight="normal", pad=3)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        if i % columns == 0:
            axes.set_ylabel(options.rows, fontsize=8.5)
    fitting = sum(row["fits"] in ("true", "1") for row in rows)
    same = [values[0] for column, values in varied(rows, ["chip", "cell"]).items() if len(values) == 1]
    figure.text(0.1 / width, 1 - 0.28 / height, ", ".join(["What fits", *same]), fontsize=11, weight="bold")
    figure.text(0.1 / width, 1 - 0.52 / height,
                f"{fitting} of {len(rows)} fit. Blue: it does, the stronger the longer a step takes"
                + (", in µs" if has_text else f" ({min(times):.3g} to {max(times):.3g} µs)" if times else ""),
                fontsize=8.5, color=INK)
    lacking = sorted({row["binding"] for panel in panels.values() for row in panel.values()
                      if row["fits"] not in ("true", "1")})
    if lacking:
        names = ", ".join(f"{binding.replace('_', ' ')} ({short})" if has_text and short.islower() else short
                          for binding in lacking for short in [SHORT.get(binding, binding.upper())])
        figure.text(0.1 / width, 1 - 0.72 / height, f"hatched: it does not, for too little of {names}", fontsize=8.5,
                    color=GREY)
    figure.text(0.5, 0.14 / height, "hidden units", ha="center", fontsize=9)
    save(figure, options.output)
    write_dump(options.dump, ["panel", "hidden", options.rows, "fits", "us_or_binding"], drawn)


if __name__ == "__main__":
    main()
