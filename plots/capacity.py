# SPDX-License-Identifier: Apache-2.0
"""Largest hidden size that stays on the chip, by chip and density. Reads rows of `onchip fit --format csv` and,
with --measured, which sizes ran with correct results."""
import math

from style import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, fail, note, number, parser, percent, plt
from style import read_csv, save, spread, write_dump

LINES = ["chip", "cell", "hidden", "batch", "density", "precision", "fits"]
MEASURED = ["cell", "precision", "density", "batch", "mask", "hidden", "correct"]
TRUE = ("true", "1")  # 1: before 0.2.0
COLORS = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, "#000000", "#8C6D31", "#5C5C8A"]


def main():
    p = parser(__doc__, data="rows of onchip fit", measured="sizes that were tried on a device")
    p.add_argument("--measured-chip", default="H200", metavar="NAME", help="the chip of --measured")
    options = p.parse_args()
    rows = read_csv(options.data, LINES)
    kinds = {(row["cell"], row["precision"], row["batch"]) for row in rows}
    if len(kinds) != 1:
        fail(f"{options.data}: expected rows of one cell, precision and batch, found {len(kinds)}")
    cell, precision, batch = kinds.pop()

    lines = {}  # chip -> [(density, hidden)]
    for row in rows:
        if row["fits"] in TRUE:
            lines.setdefault(row["chip"], []).append((number(row, "density"), number(row, "hidden")))
    if not lines:
        fail(f"{options.data}: no row fits")
    for points in lines.values():
        points.sort()
    # Colours go by the name, so that a chip keeps its own when the numbers change.
    colors = {chip: COLORS[i % len(COLORS)] for i, chip in enumerate(sorted(lines))}

    points = {}  # density -> largest size that ran with correct results
    if options.measured:
        for row in read_csv(options.measured, MEASURED):
            kind = (row["cell"], row["precision"], row["batch"])
            if kind == (cell, precision, batch) and row["mask"] == "uniform" and row["correct"] in TRUE:
                density = number(row, "density")
                points[density] = max(points.get(density, 0), number(row, "hidden"))
        if not points:
            note(f"{options.measured}: no correct result for {cell}, {precision}, batch {batch}: drawn without measured sizes")
    else:
        note("drawn without measured sizes: no --measured")

    # Chips that hold the same share one line, but for the one that was measured.
    together = {}  # whether it was measured, points -> chips
    for chip in sorted(lines):
        together.setdefault((bool(points) and chip == options.measured_chip, tuple(lines[chip])), []).append(chip)

    figure = plt.figure()
    axes = figure.add_axes((0.1, 0.105, 0.69, 0.78))
    densities = sorted({density for line in lines.values() for density, _ in line} | set(points))
    sizes = [hidden for line in lines.values() for _, hidden in line] + list(points.values())
    low, high = min(sizes) / 1.2, max(sizes) * 1.2
    # From dense to sparse: the lines part on the right, where their names stand.
    axes.set(xscale="log", yscale="log", xlim=(densities[-1] * 1.08, densities[0] / 1.08), ylim=(low, high))
    ends = []  # heights of the lines' ends in the figure, 0 to 1
    for (measured, line), chips in together.items():
        color = colors[chips[0]]
        axes.plot(*zip(*line), color=color, **({"linewidth": 2.6} if measured else
                                               {"linewidth": 1.1, "linestyle": (0, (4, 2)), "alpha": 0.75}))
        ends.append(math.log(line[0][1] / low) / math.log(high / low))
    axes.plot(list(points), list(points.values()), marker="o", markersize=8, markerfacecolor="none",
              markeredgewidth=1.6, color=INK, linestyle="none", zorder=5)
    for ((measured, line), chips), end, place in zip(together.items(), ends, spread(ends, 0.042)):
        color = colors[chips[0]]
        x = math.log(densities[-1] * 1.08 / line[0][0]) / math.log(densities[-1] * 1.08**2 / densities[0])
        axes.plot([x + 0.008, 1.025, 1.035], [end, place, place], transform=axes.transAxes, color=color, linewidth=0.8,
                  clip_on=False, scalex=False, scaley=False)
        axes.text(1.042, place, ", ".join(chips), transform=axes.transAxes, va="center", color=color,
                  weight="bold" if measured else "normal", fontsize=9 if measured else 8)
    # The key stands where sparse networks are small: nowhere.
    look = {"color": INK, "transform": axes.transAxes, "scalex": False, "scaley": False}
    axes.plot([0.4, 0.44], [0.05, 0.05], linewidth=1.1, linestyle=(0, (4, 2)), **look)
    axes.text(0.455, 0.05, "predicted only", transform=axes.transAxes, va="center")
    if points:
        axes.plot([0.4, 0.44], [0.165, 0.165], linewidth=2.6, **look)
        axes.text(0.455, 0.165, f"predicted for {options.measured_chip}", transform=axes.transAxes, va="center")
        axes.plot(0.42, 0.1075, marker="o", markersize=8, markerfacecolor="none", markeredgewidth=1.6, linestyle="none",
                  **look)
        axes.text(0.455, 0.1075, "largest that ran there with correct results", transform=axes.transAxes, va="center")
    axes.grid(True, which="major", axis="y")
    axes.xaxis.set_minor_locator(plt.NullLocator())
    axes.xaxis.set_major_locator(plt.FixedLocator(densities))
    axes.xaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: percent(value)))
    axes.yaxis.set_minor_locator(plt.NullLocator())
    axes.yaxis.set_major_locator(plt.FixedLocator([v for v in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
                                                   if low <= v <= high]))
    axes.yaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
    figure.text(0.02, 0.955, f"Largest {cell} layer whose weights stay on the chip ({precision}, batch {batch})", fontsize=11,
                weight="bold")
    axes.set_xlabel("density of the recurrent weights")
    axes.set_ylabel("hidden units")
    save(figure, options.output)
    write_dump(options.dump, ["series", "density", "hidden"],
               [[chip, density, hidden] for chip in sorted(lines) for density, hidden in lines[chip]]
               + [["measured", density, hidden] for density, hidden in sorted(points.items())])


if __name__ == "__main__":
    main()
