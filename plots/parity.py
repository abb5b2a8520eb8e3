# SPDX-License-Identifier: Apache-2.0
"""How far predicted step times are from measured ones. Reads what `onchip validate --format csv` writes."""
from matplotlib import patheffects

from style import BLUE, GREEN, GREY, INK, LIGHT, ORANGE, VERMILION, describe, fail, number, parser, plt, read_csv, save
from style import write_dump

PRECISIONS = {"fp16": (BLUE, "o"), "bf16": (ORANGE, "^"), "fp32": (VERMILION, "s"), "fp8": (GREEN, "D")}
LIBRARIES = ("cudnn", "cublas_graph", "cusparse_graph")  # are scored apart
COLUMNS = ["chip", "cell", "hidden", "batch", "density", "precision", "measured_us", "predicted_us", "low_us",
           "high_us"]
BAND = 10  # percent
LABELLED = 3
TICKS = [-75, -50, -25, -10, 0, 10, 25, 50, 100, 200, 400]  # percent


def signed(value):
    return f"{value:+.0f}".replace("-", "−")


def score(rows):
    return sum(abs(row["error"]) for row in rows) / len(rows)


def main():
    options = parser(__doc__, data="rows of onchip validate").parse_args()
    rows = read_csv(options.data, COLUMNS)
    if not rows:
        fail(f"{options.data}: no rows")
    for row in rows:
        for column in ("measured_us", "predicted_us", "low_us", "high_us"):
            row[column] = number(row, column)
            if not row[column] > 0:
                fail(f"{options.data}: column '{column}': found {row[column]:g}, expected a time above 0")
        if row["precision"] not in PRECISIONS:
            fail(f"{options.data}: unknown precision '{row['precision']}'")
        row["error"] = 100 * (row["predicted_us"] / row["measured_us"] - 1)
        row["inside"] = row["low_us"] <= row["measured_us"] <= row["high_us"]
    kernels = [row for row in rows if row.get("plan", "").split(" ")[0] not in LIBRARIES]
    libraries = [row for row in rows if row not in kernels]
    scored = kernels or libraries
    mape = score(scored)
    within = sum(abs(row["error"]) <= BAND for row in scored)
    inside = sum(row["inside"] for row in scored)
    # Ties are broken by the name, so that the order of the rows does not matter.
    worst = sorted(scored, key=lambda row: (-abs(row["error"]), describe(row)))[:LABELLED]

    # A ratio, so that twice and half are as far from 1.
    ratio = lambda percent: 1 + percent / 100  # noqa: E731
    ratios = [ratio(row["error"]) for row in rows] + [ratio(-1.6 * BAND), ratio(1.6 * BAND)]
    times = [row["measured_us"] for row in rows]
    figure = plt.figure(figsize=(7.2, 5.2))
    axes = figure.add_axes((0.105, 0.09, 0.88, 0.64))
    axes.set(xscale="log", yscale="log", xlim=(min(times) / 1.12, max(times) * 1.12),
             ylim=(min(ratios) / 1.1, max(ratios) * 1.1))
    axes.axhspan(ratio(-BAND), ratio(BAND), color=LIGHT, alpha=0.6, linewidth=0)
    axes.axhline(1, color=GREY, linewidth=0.9)
    axes.plot([row["measured_us"] for row in libraries], [ratio(row["error"]) for row in libraries], color=GREY, marker="x",
              markersize=3.5, markeredgewidth=0.8, alpha=0.6, linestyle="none")
    for precision, (color, marker) in PRECISIONS.items():
        for is_inside in (True, False):
            drawn = [row for row in kernels if (row["precision"], row["inside"]) == (precision, is_inside)]
            axes.plot([row["measured_us"] for row in drawn], [ratio(row["error"]) for row in drawn], linestyle="none",
                      marker=marker, color=color, markersize=4.6, alpha=0.7 if is_inside else 1,
                      markeredgewidth=0 if is_inside else 1.1, markeredgecolor=INK)
    for i, row in enumerate(worst, 1):
        axes.annotate(f"{i}", (row["measured_us"], ratio(row["error"])), xytext=(-8, 0), textcoords="offset points",
                      fontsize=8, ha="center", va="center", weight="bold", zorder=6,
                      path_effects=[patheffects.withStroke(linewidth=2.5, foreground="white")])
    for axis, ticks in ((axes.xaxis, [m * 10.0**e for e in range(-3, 6) for m in (1, 2, 5)]),
                        (axes.yaxis, [ratio(tick) for tick in TICKS])):
        axis.set_minor_locator(plt.NullLocator())
        low, high = axis.get_view_interval()
        axis.set_major_locator(plt.FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: signed(100 * (value - 1)) if value != 1 else "0"))
    axes.set_ylabel("predicted over measured, %")
    axes.set_xlabel("measured, µs per step")

    chips = sorted({row["chip"] for row in rows})
    figure.text(0.02, 0.945, "Step time: how far predictions are from measurements", fontsize=11, weight="bold")
    figure.text(0.02, 0.903, f"{len(scored)} {'plans' if kernels else 'libraries'} on {', '.join(chips)}: mean absolute "
                f"percentage error {mape:.1f} %, {within} within ±{BAND} % (grey)", fontsize=8.5)
    x = 0.028
    counts = [(f"{precision}, {count}", color, marker, 0, color) for precision, (color, marker) in PRECISIONS.items()
              if (count := sum(row["precision"] == precision for row in kernels))]
    if libraries and kernels:
        counts.append((f"libraries, {len(libraries)}, {score(libraries):.1f} %", GREY, "x", 0.8, GREY))
    if inside < len(scored) and kernels:
        counts.append((f"outside their 95 % interval, {len(scored) - inside}", "white", "o", 1.1, INK))
    for text, color, marker, edge, edge_color in counts:
        figure.add_artist(plt.Line2D([x], [0.863], marker=marker, color=color, markersize=5, markeredgewidth=edge,
                                     markeredgecolor=edge_color, linestyle="none"))
        written = figure.text(x + 0.012, 0.863, text, va="center", fontsize=8.5)
        x += 0.045 + written.get_window_extent(figure.canvas.get_renderer()).width / figure.bbox.width
    for i, row in enumerate(worst, 1):
        figure.text(0.105, 0.835 - 0.026 * i, f"{i}   {describe(row)}: {signed(row['error'])} %", va="center", fontsize=7.5,
                    color=GREY)
    figure.text(0.02, 0.809, "largest", va="center", fontsize=7.5, color=GREY)
    save(figure, options.output)
    columns = ["chip", "cell", "hidden", "batch", "density", "precision"]
    write_dump(options.dump, columns + ["measured_us", "predicted_us", "inside", "error_percent", "label"],
               [[row[column] for column in columns] + [row["measured_us"], row["predicted_us"], int(row["inside"]),
                row["error"], int(row in worst)] for row in rows]
               + [["all", "", "", "", "", f"n={len(scored)}", "", "", inside, mape, ""]])


if __name__ == "__main__":
    main()
