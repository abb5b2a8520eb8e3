# SPDX-License-Identifier: Apache-2.0
"""Where the time of a step goes. Reads rows of `onchip predict --format csv` and, with --measured, step times that
were measured for the same configurations."""
from style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, YELLOW, describe, fail, note, number, parser
from style import plt, read_csv, save, spread, write_dump

PARTS = {"exchange": BLUE, "staging": SKY, "gather": ORANGE, "arithmetic": GREEN, "reduction": PURPLE,
         "activation": YELLOW, "streaming": GREY}
KEY = ["cell", "hidden", "batch", "precision", "mask"]
ROWS = ["chip", *KEY, "density", "plan", "step_us", "floor_us", *(part + "_us" for part in PARTS)]
MEASURED = [*KEY, "density", "plan", "step_us"]


def key(row):
    return tuple(row[column] for column in KEY) + (number(row, "density"),)


def main():
    options = parser(__doc__, data="rows of onchip predict", measured="measured step times").parse_args()
    rows = read_csv(options.data, ROWS)
    if not rows:
        fail(f"{options.data}: no rows")
    chips = sorted({row["chip"] for row in rows})
    if len(chips) != 1:
        fail(f"{options.data}: expected rows of one chip, found {', '.join(chips)}")
    measured = {}  # configuration -> (time, is it the plan that was predicted)
    if options.measured:
        plans = {key(row): row["plan"] for row in rows}
        for row in read_csv(options.measured, MEASURED):
            same = plans.get(key(row)) == row["plan"]
            # Of several plans, the one that was predicted; else the first.
            if key(row) in plans and row["step_us"] and (key(row) not in measured or same > measured[key(row)][1]):
                measured[key(row)] = (number(row, "step_us"), same)
    else:
        note("drawn without measured times: no --measured")
    for row in rows:
        if options.measured and key(row) not in measured:
            note(f"{options.measured}: {describe(row)} was not measured")

    height = 1.55 + 0.6 * len(rows)
    figure = plt.figure(figsize=(7.2, height))
    axes = figure.add_axes((0.225, 0.72 / height, 0.565, 1 - 1.55 / height))
    longest = max([number(row, "step_us") for row in rows] + [us for us, _ in measured.values()])
    axes.set(xlim=(0, longest * 1.03), ylim=(len(rows) - 0.4, -0.45))
    right = axes.get_yaxis_transform()  # x as a share of the width, y in bars
    drawn = []
    middles = {}  # part -> middle of its segment in the first bar
    for y, row in enumerate(rows):
        left = 0.0
        for part, color in PARTS.items():
            us = number(row, part + "_us")
            axes.barh(y, us, left=left, height=0.52, color=color, edgecolor="white", linewidth=0.6)
            if us > 0.06 * longest:
                axes.text(left + us / 2, y, f"{us:.2f}", ha="center", va="center", fontsize=8,
                          color="white" if color == BLUE else INK)
            if y == 0 and us > 0:
                middles[part] = left + us / 2
            drawn.append([describe(row), part, us])
            left += us
        floor = number(row, "floor_us")
        drawn += [[describe(row), "predicted", left], [describe(row), "floor", floor]]
        axes.plot([floor, floor], [y + 0.27, y + 0.45], color=INK, linewidth=1.6, solid_capstyle="butt")
        axes.text(1.11, y, f"{left:.2f}", transform=right, ha="center", va="center", weight="bold")
        if key(row) in measured:
            us, same = measured[key(row)]
            axes.plot(us, y + 0.36, marker="D", markersize=6, color=VERMILION, linestyle="none", clip_on=False,
                      markerfacecolor=VERMILION if same else "white", zorder=5)
            axes.text(1.28, y, f"{us:.2f}", transform=right, ha="center", va="center", color=VERMILION, weight="bold")
            drawn.append([describe(row), "measured" if same else "measured, other plan", us])
    names = list(middles)
    for name, place in zip(names, spread([middles[name] for name in names], 0.165 * longest)):
        axes.plot([middles[name], place], [-0.29, -0.5], color=PARTS[name], linewidth=1, clip_on=False)
        axes.text(place, -0.53, name, ha="center", va="bottom", fontsize=8.5)
    axes.text(1.11, -0.53, "predicted", transform=right, ha="center", va="bottom", fontsize=8.5)
    if measured:
        axes.text(1.28, -0.53, "measured", transform=right, ha="center", va="bottom", fontsize=8.5, color=VERMILION)
    axes.set_yticks(range(len(rows)), [describe(row) for row in rows], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_xlabel("µs per step")
    key_text = "tick below a bar: floor" + ("; diamond: measured" if measured else "")
    if not all(same for _, same in measured.values()):
        key_text += ", hollow with another plan"
    figure.text(0.98, 0.12 / height, key_text, ha="right", color=GREY, fontsize=8)
    figure.text(0.02, 1 - 0.3 / height, f"Where the time of a step goes, {chips[0]}", fontsize=11, weight="bold")
    save(figure, options.output)
    write_dump(options.dump, ["configuration", "what", "us"], drawn)


if __name__ == "__main__":
    main()
