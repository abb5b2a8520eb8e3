# SPDX-License-Identifier: Apache-2.0
"""What no other row of a sweep beats: all rows as dots, the front as a line, or of three objectives and more as larger
dots; one for each density where there are several. Reads rows of `onchip sweep` or `onchip pareto`."""
import math

from matplotlib import patheffects

from style import BLUE, GREEN, GREY, INK, LIGHT, ORANGE, PURPLE, SKY, VERMILION, fail, number, parser, percent, plt
from style import read_csv, save, spread, varied, write_dump

COLORS = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK]  # more densities: one front
WORDS = {"hidden": "hidden units", "step_us": "µs per step"}


def parse_objectives(text):
    """'hidden:max,step_us' -> [('hidden', True), ('step_us', False)]: the columns, and whether the largest is best"""
    objectives = [(part.split(":")[0], part.endswith(":max")) for part in text.split(",")]
    if len(objectives) < 2:
        fail(f"--objectives: found '{text}', expected two columns")
    return objectives


def front(points, objectives):
    """The points that no other beats in all objectives, along the first one."""
    signs = [-1 if largest else 1 for _, largest in objectives]
    rest_of = lambda point: tuple(sign * value for sign, value in zip(signs, point))[1:]  # noqa: E731
    found, rests = [], []
    for point in sorted(points, key=lambda point: (signs[0] * point[0], rest_of(point))):
        rest = rest_of(point)  # those before are not worse in the first objective; of two the last of them is the best
        if not any(all(a <= b for a, b in zip(of, rest)) for of in (rests if len(rest) > 1 else rests[-1:])):
            found.append(point)
            rests.append(rest)
    return sorted(found)


def direction(column, largest):
    return f"{WORDS.get(column, column)} ({'more' if largest else 'less'} is better)"


def main():
    p = parser(__doc__, data="rows of onchip sweep or pareto")
    p.add_argument("--objectives", default="hidden:max,step_us:min", metavar="LIST", help="as of onchip pareto")
    p.add_argument("--by", metavar="COLUMN", help="a front for each of its values, as of onchip pareto")
    p.add_argument("--of", metavar="N", help="the rows are the front of so many")
    options = p.parse_args()
    objectives = parse_objectives(options.objectives)
    columns = [column for column, _ in objectives]
    x, y = columns[:2]
    rows = [row for row in read_csv(options.data, columns + ([options.by] if options.by else []))
            if all(row[column] for column in columns) and row.get("runs", row.get("fits", "true")) in ("true", "1")]
    if not rows:
        fail(f"{options.data}: no row fits and has all objectives")
    of = lambda row: tuple(number(row, column) for column in columns)  # noqa: E731
    everything = [of(row) for row in rows]
    by = options.by
    # Rows of one front stay one line.
    if (not by and "density" not in columns and 1 < len(varied(rows, ["density"]).get("density", [])) <= len(COLORS)
            and len(front(set(everything), objectives)) < len(set(everything))):
        by = "density"
    name = lambda value: percent(value) if by == "density" else value or ""  # noqa: E731
    group_of = lambda row: None if not by else number(row, by) if by == "density" else row[by]  # noqa: E731
    groups = {}  # value of `by` -> points
    for row in rows:
        groups.setdefault(group_of(row), set()).add(of(row))
    if len(groups) > len(COLORS):
        fail(f"expected at most {len(COLORS)} values of {by}, found {len(groups)}")

    figure = plt.figure()
    longest = max(len(name(group)) for group in groups)
    axes = figure.add_axes((0.1, 0.115, 0.81 - 0.013 * max(0, longest - 4), 0.765))
    for i, scale in enumerate((axes.set_xscale, axes.set_yscale)):
        values = [point[i] for point in everything]
        if min(values) > 0 and max(values) > 4 * min(values):
            scale("log")
    drawn, ends = [], []
    fronts = {}
    for group, color in zip(sorted(groups, key=lambda group: group or 0), COLORS):
        points = front(groups[group], objectives)
        fronts[group] = set(points)
        beaten = sorted(groups[group] - set(points))
        axes.plot([p[0] for p in beaten], [p[1] for p in beaten], color=color if by else GREY, marker="o",
                  markersize=2.8, alpha=0.35, markeredgewidth=0, linestyle="none")
        axes.plot([p[0] for p in points], [p[1] for p in points], color=color, marker="o", markersize=4.5,
                  linewidth=1.6 if len(objectives) == 2 else 0)
        ends.append((points[-1], color, name(group)))
        drawn += [["" if group is None else group, *point, 1] for point in points]
        drawn += [["" if group is None else group, *point, 0] for point in beaten]
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
    places = [axes.transAxes.inverted().transform(axes.transData.transform(point[:2])) for point, _, _ in ends]
    names_at = {}  # a tenth of the width -> those whose names may meet there
    for i, place in enumerate(places):
        names_at.setdefault(round(10 * place[0]), []).append(i)
    for here in names_at.values():
        at = max(places[i][0] for i in here)
        for i, height in zip(here, spread([places[i][1] for i in here], 0.05)):
            axes.text(at + 0.015, height, ends[i][2], transform=axes.transAxes, va="center", color=ends[i][1],
                      weight="bold", path_effects=[patheffects.withStroke(linewidth=2.5, foreground="white")])
    axes.set_xlabel(direction(*objectives[0]))
    axes.set_ylabel(direction(*objectives[1]))
    on_front = sum(of(row) in fronts[group_of(row)] for row in rows)
    chips = varied(rows, ["chip"]).get("chip", [])
    figure.text(0.02, 0.955, f"What no other row beats{f', by {by}' if by else ''}"
                + (f": {chips[0]}" if len(chips) == 1 else ""), fontsize=11, weight="bold")
    figure.text(0.02, 0.915, f"{on_front} rows on the {'fronts' if by else 'front'}, of "
                + (f"{options.of} rows" if options.of else f"{len(rows)} that fit")
                + (f"; also compared: {', '.join(columns[2:])}" if columns[2:] else ""), fontsize=8.5, color=GREY)
    save(figure, options.output)
    write_dump(options.dump, [by or "density", *columns, "on_front"], drawn)


if __name__ == "__main__":
    main()
