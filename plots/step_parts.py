# SPDX-License-Identifier: Apache-2.0
"""Where the time of a step goes. Reads rows of `onchip predict --format csv` and, with --measured, step times that
were measured for the same configurations. A column `case` names the bars; bars of one network have their family's name."""
from style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, YELLOW, describe, draw_key, fail, note, number
from style import parser, plt, read_csv, save, write_dump

PARTS = {"exchange": BLUE, "staging": SKY, "gather": ORANGE, "arithmetic": GREEN, "reduction": PURPLE,
         "activation": YELLOW, "streaming": GREY, "launch": "#8C6D31"}
KEY = ["cell", "hidden", "batch", "precision", "mask"]
ROWS = ["chip", *KEY, "density", "plan", "step_us", "low_us", "high_us"]
MEASURED = [*KEY, "density", "plan", "step_us"]


def key(row):
    return tuple(row[column] for column in KEY) + (number(row, "density"),)


def main():
    options = parser(__doc__, data="rows of onchip predict", measured="measured step times").parse_args()
    rows = read_csv(options.data, ROWS)
    if not rows:
        fail(f"{options.data}: no rows")
    for row in rows:
        if not row["step_us"]:
            note(f"{options.data}: {describe(row)} does not fit")
    rows = [row for row in rows if row["step_us"]]
    if not rows:
        fail(f"{options.data}: no row fits")
    chips = sorted({row["chip"] for row in rows})
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
    axes = figure.add_axes((0.235, 0.72 / height, 0.555, 1 - 1.55 / height))
    longest = max([number(row, "high_us") for row in rows] + [us for us, _ in measured.values()])
    axes.set(xlim=(0, longest * 1.03), ylim=(len(rows) - 0.35, -0.45))
    right = axes.get_yaxis_transform()  # x as a share of the width, y in bars
    drawn, names = [], []
    for y, row in enumerate(rows):
        family = row["plan"].split(" ")[0] if len({describe(row) for row in rows}) < len(rows) else ""
        names.append("\n".join(filter(None, [row.get("case") or family, row["chip"] * (len(chips) > 1), describe(row)])))
        name = names[-1].replace("\n", " ")
        left = 0.0
        for part, color in PARTS.items():
            us = number(row, part + "_us") if row.get(part + "_us") else 0.0
            axes.barh(y, us, left=left, height=0.52, color=color, edgecolor="white", linewidth=0.6)
            if us > 0.06 * longest:
                axes.text(left + us / 2, y, f"{us:.2f}", ha="center", va="center", fontsize=8,
                          color="white" if color in (BLUE, PARTS["launch"]) else INK)
            if row.get(part + "_us"):
                drawn.append([name, part, us])
            left += us
        low, high = number(row, "low_us"), number(row, "high_us")
        axes.errorbar(number(row, "step_us"), y + 0.36, xerr=[[number(row, "step_us") - low], [high - number(row, "step_us")]],
                      color=INK, linewidth=1, capsize=2.5, marker="|", markersize=5)
        drawn += [[name, "predicted", left], [name, "low", low], [name, "high", high]]
        if row.get("floor_us") and number(row, "floor_us") > 0:
            floor = number(row, "floor_us")
            axes.plot([floor, floor], [y + 0.27, y + 0.45], color=INK, linewidth=2.4, solid_capstyle="butt")
            drawn.append([name, "floor", floor])
        axes.text(1.11, y, f"{left:.2f}", transform=right, ha="center", va="center", weight="bold")
        if key(row) in measured:
            us, same = measured[key(row)]
            axes.plot(us, y + 0.36, marker="D", markersize=6, color=VERMILION, linestyle="none", clip_on=False,
                      markerfacecolor=VERMILION if same else "white", zorder=5)
            axes.text(1.28, y, f"{us:.2f}", transform=right, ha="center", va="center", color=VERMILION, weight="bold")
            drawn.append([name, "measured" if same else "measured, other plan", us])
    axes.text(1.11, -0.53, "predicted", transform=right, ha="center", va="bottom", fontsize=8.5)
    if measured:
        axes.text(1.28, -0.53, "measured", transform=right, ha="center", va="bottom", fontsize=8.5, color=VERMILION)
    axes.set_yticks(range(len(rows)), names, fontsize=8 if "\n" in names[0] else 8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_xlabel("µs per step")
    key_text = "below a bar: floor (thick tick), 95 % interval (line)" + (", measured (diamond)" if measured else "")
    if not all(same for _, same in measured.values()):
        key_text += ", hollow with another plan"
    draw_key(figure, {part: color for part, color in PARTS.items()
                      if any(what == part and us > 0 for _, what, us in drawn)}, 0.15, height - 0.55)
    figure.text(0.98, 0.12 / height, key_text, ha="right", color=GREY, fontsize=8)
    figure.text(0.02, 1 - 0.3 / height, "Where the time of a step goes" + (f", {chips[0]}" if len(chips) == 1 else ""), fontsize=11, weight="bold")
    save(figure, options.output)
    write_dump(options.dump, ["configuration", "what", "us"], drawn)


if __name__ == "__main__":
    main()
