# SPDX-License-Identifier: Apache-2.0
"""What no other row of a sweep beats in two objectives: all rows as dots, the front as a line, one for each density
where there are several. Reads rows of `onchip sweep` or `onchip pareto`."""
import math

from matplotlib import patheffects

from style import BLUE, GREEN, GREY, INK, LIGHT, ORANGE, PURPLE, SKY, VERMILION, fail, note, number, parser, percent, plt
from style import read_csv, save, spread, varied, write_dump

COLORS = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK]  # more densities: one front
WORDS = {"hidden": "hidden units", "step_us": "µs per step"}


def parse_objectives(text):
    """'hidden:max,step_us' -> [('hidden', True), ('step_us', False)]: the first two, and whether the largest is best"""
    objectives = [(part.split(":")[0], part.endswith(":max")) for part in text.split(",")]
    if len(objectives) < 2:
        fail(f"--objectives: found '{text}', expected two columns")
    if len(objectives) > 2:
        note(f"of {len(objectives)} objectives {objectives[0][0]} and {objectives[1][0]} are drawn")
    return objectives[:2]


def front(points, objectives):
    """The points that no other beats, along the first objective."""
    signs = [-1 if largest else 1 for _, largest in objectives]
    found, best = [], math.inf
    for point in sorted(points, key=lambda point: (signs[0] * point[0], signs[1] * point[1])):
        if signs[1] * point[1] < best:
            best = signs[1] * point[1]
            found.append(point)
    return sorted(found)


def direction(column, largest):
    return f"{WORDS.get(column, column)} ({'more' if largest else 'less'} is better)"


def main():
    p = parser(__doc__, data="rows of onchip sweep or pareto")
    p.add_argument("--objectives", default="hidden:max,step_us:min", metavar="LIST", help="as of onchip pareto")
    options = p.parse_args()
    objectives = parse_objectives(options.objectives)
    (x, _), (y, _) = objectives
    rows = [row for row in read_csv(options.data, [x, y])
            if row[x] and row[y] and row.get("runs", row.get("fits", "true")) in ("true", "1")]
    if not rows:
        fail(f"{options.data}: no row fits and has both objectives")
    of = lambda row: (number(row, x), number(row, y))  # noqa: E731
    everything = [of(row) for row in rows]
    # Rows of one front stay one line.
    by_density = ("density" not in (x, y) and 1 < len(varied(rows, ["density"]).get("density", [])) <= len(COLORS)
                  and len(front(set(everything), objectives)) < len(set(everything)))
    groups = {}  # density -> points
    for row in rows:
        groups.setdefault(number(row, "density") if by_density else None, set()).add(of(row))

    figure = plt.figure()
    axes = figure.add_axes((0.1, 0.115, 0.81, 0.765))
    for i, scale in enumerate((axes.set_xscale, axes.set_yscale)):
        values = [point[i] for point in everything]
        if min(values) > 0 and max(values) > 4 * min(values):
            scale("log")
    drawn, ends = [], []
    densities = sorted(groups, key=lambda density: density or 0)
    for density, color in zip(densities, COLORS):
        points = front(groups[density], objectives)
        beaten = sorted(groups[density] - set(points))
        axes.plot([p[0] for p in beaten], [p[1] for p in beaten], color=color if by_density else GREY, marker="o",
                  markersize=2.8, alpha=0.35, markeredgewidth=0, linestyle="none")
        axes.plot(*zip(*points), color=color, marker="o", markersize=4.5, linewidth=1.6)
        ends.append((points[-1], color, percent(density) if by_density else ""))
        drawn += [[density if by_density else "", *point, 1] for point in points]
        drawn += [[density if by_density else "", *point, 0] for point in beaten]
    axes.margins(0.06)
    axes.grid(True, color=LIGHT)
    for axis, (low, high), column in ((axes.xaxis, axes.get_xlim(), x), (axes.yaxis, axes.get_ylim(), y)):
        if axis.get_scale() == "log":
            apart = ([2.0**e for e in range(40)] if column == "hidden" else
                     [m * 10.0**e for e in range(-9, 12) for m in (1, 2, 5)])
            axis.set_major_locator(plt.FixedLocator([tick for tick in apart if low <= tick <= high]))
            axis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(plt.NullLocator())
    # Names beside the lines' ends; ends at the same size stand above one another.
    places = [axes.transAxes.inverted().transform(axes.transData.transform(point)) for point, _, _ in ends]
    for at in {place[0] for place in places}:
        here = [i for i, place in enumerate(places) if place[0] == at]
        for i, height in zip(here, spread([places[i][1] for i in here], 0.05)):
            axes.text(at + 0.015, height, ends[i][2], transform=axes.transAxes, va="center", color=ends[i][1],
                      weight="bold", path_effects=[patheffects.withStroke(linewidth=2.5, foreground="white")])
    axes.set_xlabel(direction(*objectives[0]))
    axes.set_ylabel(direction(*objectives[1]))
    on_front = sum(row[-1] for row in drawn)
    chips = varied(rows, ["chip"]).get("chip", [])
    figure.text(0.02, 0.955, f"What no other row beats{', by density' if by_density else ''}"
                + (f": {chips[0]}" if len(chips) == 1 else ""), fontsize=11, weight="bold")
    figure.text(0.02, 0.915, f"{on_front} points on the {'fronts' if by_density else 'front'} (lines), of "
                f"{len(rows)} that fit", fontsize=8.5, color=GREY)
    save(figure, options.output)
    write_dump(options.dump, ["density", x, y, "on_front"], drawn)


if __name__ == "__main__":
    main()
