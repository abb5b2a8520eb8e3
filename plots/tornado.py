# SPDX-License-Identifier: Apache-2.0
"""What 10 % more of each of a chip's numbers changes: the time of a step, and the largest network that fits, the largest
effect on top. Reads the JSON of `onchip what-if --format json`."""
import json

from style import BLUE, GREY, INK, LIGHT, VERMILION, describe, fail, parser, plt, save, write_dump

MOST = 16  # bars
PANELS = [("d_step_percent", "time of a step, %", -1), ("d_hidden_percent", "largest hidden size, %", 1)]


def read_answer(path):
    """The base's label, and (key, changes) of each number."""
    try:
        with open(path, encoding="utf-8") as file:
            answer = json.load(file)
        base = answer["base"]
        label = f"{describe(base['network'])} on {base['chip']}"
        return label, [(s["key"], [float(s[name]) for name, *_ in PANELS], bool(s["difference_is_told"]))
                       for s in answer["sensitivity"]]
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        fail(f"{path}: expected the JSON of onchip what-if with its ranking: {error!r}")


def main():
    options = parser(__doc__, data="JSON of onchip what-if").parse_args()
    label, numbers = read_answer(options.data)
    if not numbers:
        fail(f"{options.data}: no number of the chip matters")
    left_out, numbers = len(numbers[MOST:]), numbers[:MOST]

    height = 1.5 + 0.24 * len(numbers)
    figure, all_axes = plt.subplots(1, 2, figsize=(7.2, height), sharey=True)
    for panel, (axes, (_, title, better)) in enumerate(zip(all_axes, PANELS)):
        changes = [change[panel] for _, change, _ in numbers]
        reach = 1.45 * max(max(map(abs, changes)), 0.1)
        axes.axvline(0, color=GREY, linewidth=0.8)
        for y, (change, (_, _, is_told)) in enumerate(zip(changes, numbers)):
            told = is_told or panel == 1  # sizes are counted
            color = (BLUE if change * better > 0 else VERMILION) if told else LIGHT
            axes.barh(y, change, height=0.7, color=color)
            if change:
                axes.text(change + (0.02 if change > 0 else -0.02) * reach, y, f"{change:+.1f}" + ("" if told else " ~"),
                          va="center", ha="left" if change > 0 else "right", fontsize=8, color=INK if told else GREY)
        axes.set(xlim=(-reach, reach), ylim=(len(numbers) - 0.4, -0.6))
        axes.set_xlabel(title)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(True, axis="x")
    all_axes[0].set_yticks(range(len(numbers)), [key for key, *_ in numbers], fontsize=8)
    figure.subplots_adjust(left=0.27, right=0.98, top=1 - 0.72 / height, bottom=0.62 / height, wspace=0.08)
    figure.text(0.02, 1 - 0.27 / height, "What 10 % more of a number changes", fontsize=11, weight="bold")
    figure.text(0.02, 1 - 0.52 / height, label, color=GREY)
    figure.text(0.98, 1 - 0.27 / height, "blue: better", ha="right", fontsize=8, color=BLUE)
    figure.text(0.98, 1 - 0.43 / height, "red: worse", ha="right", fontsize=8, color=VERMILION)
    figure.text(0.98, 1 - 0.59 / height, "~ less than the model can tell", ha="right", fontsize=8, color=GREY)
    if left_out:
        figure.text(0.02, 0.12 / height, f"{left_out} smaller ones left out", fontsize=8, color=GREY)
    save(figure, options.output)
    write_dump(options.dump, ["key", "d_step_percent", "d_hidden_percent", "told"],
               [[key, *change, int(is_told)] for key, change, is_told in numbers])


if __name__ == "__main__":
    main()
