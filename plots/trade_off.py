# SPDX-License-Identifier: Apache-2.0
"""What more of one of a chip's numbers saves of another, so that a network reaches a target. Reads rows of
`onchip what-if --vary KEY --vary KEY --format csv`."""
from style import BLUE, GREY, INK, SKY, VERMILION, describe, fail, number, parser, plt, read_csv, save, write_dump

COLUMNS = ["case", "reached", "cost", "chip", "cell", "hidden", "batch", "density", "precision", "step_us"]
UNITS = [(("shared_memory.", "timing.instruction_cache", "timing.sm_instruction_cache"), 1024, "KiB"),
         (("l2.size",), 2**20, "MiB"), (("dram.size",), 2**30, "GiB"), (("sm.clock",), 1e6, "MHz"),
         (("dram.bandwidth", "library.l2_bandwidth"), 1e9, "GB/s"),
         (("timing.grid_barrier", "library.product", "library.node"), 1e-6, "µs")]
COUNTS = ("shared_memory.banks",)


def unit_of(key):
    for keys, factor, unit in UNITS:
        if key.startswith(keys) and key not in COUNTS:
            return factor, f"{key}, {unit}"
    return 1, key


def main():
    options = parser(__doc__, data="rows of onchip what-if with two varied keys").parse_args()
    rows = read_csv(options.data, COLUMNS)
    names = list(rows[0]) if rows else []
    keys = names[2:names.index("cost")] if rows else []
    curve = [row for row in rows if row["case"] == "trade_off"]
    if len(keys) != 2 or not curve:
        fail(f"{options.data}: expected rows of a trade-off, which two varied keys that reach the target have")
    (x_factor, x_label), (y_factor, y_label) = map(unit_of, keys)
    place = lambda row: (number(row, keys[0]) / x_factor, number(row, keys[1]) / y_factor)  # noqa: E731
    base = next((row for row in rows if row["case"] == "base"), None) or fail(f"{options.data}: no row of the base")
    cheapest = next((row for row in rows if row["case"] == "cheapest"), None)

    points = [place(row) for row in curve]
    shown = [place(row) for row in (base, cheapest) if row]
    # As far as three times what the chip has: the ends of a curve are of chips that nobody builds.
    right, top = (1.12 * min(max(point[axis] for point in points + shown),
                             max(3 * shown[0][axis], shown[-1][axis], 1.3 * min(point[axis] for point in points)))
                  for axis in (0, 1))
    # Up from the first corner, to the right from the last: more of both does as well.
    xs = [points[0][0], *(x for x, _ in points), max(right, points[-1][0])]
    ys = [max(top, points[0][1]), *(y for _, y in points), points[-1][1]]
    figure = plt.figure()
    axes = figure.add_axes((0.12, 0.105, 0.84, 0.775))
    axes.fill_between(xs, ys, max(ys), step="post", color=SKY, alpha=0.18, linewidth=0)
    axes.step(xs, ys, where="post", color=BLUE)
    axes.plot(*zip(*points), color=BLUE, marker="o", markersize=3.5, linestyle="none")
    axes.text(0.985, 0.97, "reaches the target", transform=axes.transAxes, ha="right", va="top", color=BLUE, weight="bold")
    visible = [row for row in curve if place(row)[0] <= right and place(row)[1] <= top]
    for row, offset in [*zip(visible[:1], [(7, 5)]), *zip(visible[1:][-1:], [(5, 5)])]:
        if not cheapest or place(row) != place(cheapest):
            axes.annotate(f"{number(row, 'step_us'):.2f} µs", place(row), xytext=offset, textcoords="offset points",
                          fontsize=8, color=GREY)
    reached = base["reached"] == "true"
    axes.plot(*place(base), marker="s", markersize=7, color=INK if reached else VERMILION, linestyle="none", clip_on=False)
    at_left = place(base)[0] < 0.25 * right
    axes.annotate(f"{base['chip']} as it is", place(base), xytext=(8 if at_left else -8, -12), textcoords="offset points",
                  ha="left" if at_left else "right", fontsize=8, color=INK if reached else VERMILION)
    if cheapest:
        axes.plot(*place(cheapest), marker="o", markersize=10, markerfacecolor="none", markeredgewidth=1.6, color=INK)
        is_right = place(cheapest)[0] > 0.6 * right
        axes.annotate(f"cheapest, {number(cheapest, 'step_us'):.2f} µs", place(cheapest),
                      xytext=(-9 if is_right else 9, -14 if is_right else 9), textcoords="offset points",
                      ha="right" if is_right else "left", fontsize=8, weight="bold")
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= right])
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= top])
    axes.grid(True)
    axes.set_title(f"The least of both for {describe(base)}", pad=22)
    axes.text(0, 1.025, "corners with the time of a step", transform=axes.transAxes, fontsize=8, color=GREY)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    save(figure, options.output)
    write_dump(options.dump, ["case", *keys, "step_us"],
               [[row["case"], *place(row), row["step_us"]] for row in rows if row["case"] in ("base", "trade_off", "cheapest")])


if __name__ == "__main__":
    main()
