# SPDX-License-Identifier: Apache-2.0
"""Published values beside the model's and the measured ones, claim by claim. Reads rows of
`onchip reproduce all --format csv` whose figure is --figure."""
import math

from style import BLUE, GREEN, INK, LIGHT, VERMILION, describe, fail, number, parser, plt, read_csv, save, write_dump

COLUMNS = ["claim", "verdict", "published", "unit", "published_chip", "cell", "hidden", "batch", "density", "precision",
           "there", "here_chip", "here", "measured", "plot"]
# Column, colour, marker, name.
SERIES = [("published", INK, "D", "published"), ("there", VERMILION, "o", "model, chip of the claim"),
          ("here", BLUE, "s", "model, chip that was measured"), ("measured", GREEN, "^", "measured")]
TITLES = {"replication_speedups": "Speed-ups that papers claim", "replication_steps": "Step times that were published",
          "replication_capacity": "Sizes that papers claim", "replication_layers": "Recurrent layers of case studies"}


def main():
    p = parser(__doc__, data="rows of onchip reproduce all")
    p.add_argument("--figure", required=True, metavar="NAME", choices=sorted(TITLES), help="which claims: their 'plot'")
    options = p.parse_args()
    rows = [row for row in read_csv(options.data, COLUMNS) if row["plot"] == options.figure]
    if not rows:
        fail(f"{options.data}: no claim has the figure {options.figure}")
    panels = {}  # unit -> rows
    for row in rows:
        panels.setdefault(row["unit"], []).append(row)

    inches = [0.5 + 0.5 * len(panel) for panel in panels.values()]
    height = 1.2 + sum(inches)
    figure, all_axes = plt.subplots(len(panels), 1, figsize=(7.2, height), squeeze=False,
                                    gridspec_kw={"height_ratios": inches})
    drawn = []
    for axes, (unit, panel) in zip(all_axes[:, 0], panels.items()):
        axes.set_xscale("log")
        values = []
        for y, row in enumerate(panel):
            axes.axhline(y, color=LIGHT, linewidth=0.6, zorder=0)
            for column, color, marker, label in SERIES:
                if row[column]:
                    value = number(row, column)
                    values.append(value)
                    offset = 0.23 * ([name for name, *_ in SERIES].index(column) - 1.5)
                    axes.plot(value, y + offset, marker=marker, color=color, markersize=6, linestyle="none")
                    axes.annotate(f"{value:.3g}" if value < 1000 else f"{value:.0f}", (value, y + offset), xytext=(6, 0), textcoords="offset points",
                                  va="center", fontsize=6.5, color=color)
                    drawn.append([row["claim"], describe({**row, "hidden": row["hidden"] or "?"}), label, value])
            if y == 0 or panel[y - 1]["claim"] != row["claim"]:
                axes.text(1.015, y, row["verdict"], transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        several = len({row["claim"] for row in panel}) < len(panel)
        names = [describe(row) if several else row["claim"] for row in panel]
        axes.set_yticks(range(len(panel)), names, fontsize=8)
        low, high = min(values), max(values)
        axes.set(ylim=(len(panel) - 0.4, -0.6), xlim=(low / 1.25, high * max(1.3, (high / low) ** 0.12)))
        ticks = [m * 10**e for e in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
                 for m in (1, 2, 3, 5)]
        axes.xaxis.set_minor_locator(plt.NullLocator())
        axes.xaxis.set_major_locator(plt.FixedLocator([t for t in ticks if low / 1.25 <= t <= high * 1.3]))
        axes.xaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel({"us": "µs per step", "times": "times as fast" if "capacity" not in options.figure
                         else "times the weights"}.get(unit, unit), fontsize=8, labelpad=1)
    figure.subplots_adjust(left=0.24, right=0.88, top=1 - 0.72 / height, bottom=0.48 / height, hspace=0.55)
    figure.text(0.02, 1 - 0.26 / height, TITLES[options.figure], fontsize=11, weight="bold")
    shown = [series for series in SERIES if any(row[series[0]] for row in rows)]
    x, y = 0.03, 1 - 0.5 / height
    for _, color, marker, label in shown:
        figure.add_artist(plt.Line2D([x], [y], marker=marker, color=color, markersize=5, linestyle="none"))
        figure.text(x + 0.012, y, label, color=color, fontsize=8, va="center")
        x += 0.05 + 0.0097 * len(label)
    save(figure, options.output)
    write_dump(options.dump, ["claim", "network", "who", "value"], drawn)


if __name__ == "__main__":
    main()
