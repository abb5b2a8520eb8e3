# SPDX-License-Identifier: Apache-2.0
"""What less memory costs in training: the most memory of an iteration against its time, by what is kept between the passes;
onchip's in blue.
Reads rows of experiments/recipes/training/training_memory.py."""
from style import BLUE, GREY, VERMILION, fail, number, parser, plt, read_csv, save, write_dump

COLUMNS = ["device", "cell", "hidden", "batch", "steps", "layers", "way", "peak_mib", "ms"]
NAMES = {"torch": "torch.nn", "torch checkpoint 4": "4 chunks", "torch checkpoint 16": "checkpoint, 16 chunks",
         "onchip gates": "onchip, gates", "onchip 1 of cells": "cells of one layer", "onchip cells": "cells",
         "onchip replay": "replay"}  # fmt: skip
PLACES = {"onchip cells": ("right", (-6, -4)), "onchip replay": ("left", (7, -4)), "torch checkpoint 4": ("center", (0, 7))}


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    networks = {}
    rows = [row for row in read_csv(options.data, COLUMNS) if row["way"] in NAMES]
    for row in rows:
        name = f"{row['layers']} x {row['cell'].upper()} {row['hidden']}, batch {row['batch']}, {row['steps']} steps"
        networks.setdefault(name, {})[row["way"]] = number(row, "ms"), number(row, "peak_mib")
    if not networks:
        fail(f"{options.data}: no rows of a way that trains")

    figure, all_axes = plt.subplots(1, len(networks), figsize=(3.3 * len(networks), 3.5), squeeze=False)
    for axes, (name, ways) in zip(all_axes[0], networks.items()):
        own = sorted(of for way, of in ways.items() if way.startswith("onchip"))
        axes.plot(*zip(*own), color=BLUE, linewidth=0.8, alpha=0.5)
        for way, (ms, mib) in ways.items():
            color = BLUE if way.startswith("onchip") else VERMILION
            axes.plot(ms, mib, marker="o", color=color, linestyle="none", clip_on=False)
            is_right = ms > 0.75 * max(ms for ms, _ in ways.values())
            align, place = PLACES.get(way, ("right", (7, 7)) if is_right else ("left", (7, 6)))
            axes.annotate(NAMES[way], (ms, mib), xytext=place, textcoords="offset points", fontsize=8, color=color, ha=align)
        right, top = 1.05 * max(ms for ms, _ in ways.values()), 1.1 * max(mib for _, mib in ways.values())
        axes.set(xlim=(0, right), ylim=(0, top))
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= right])
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= top])
        axes.grid(True)
        axes.set_title(name, fontsize=8, color=GREY)
        axes.set_xlabel("ms of an iteration")
    all_axes[0, 0].set_ylabel("MiB at most, beside x and the weights")
    figure.suptitle(f"What less memory costs, {rows[0]['device']}", x=0.02, ha="left", fontsize=11, weight="bold")
    figure.subplots_adjust(left=0.2 / len(networks) + 0.01, right=0.98, top=0.82, bottom=0.14, wspace=0.25)
    save(figure, options.output)
    write_dump(options.dump, ["network", "way", "ms", "peak_mib"],
               [[name, way, *of] for name, ways in networks.items() for way, of in ways.items()])


if __name__ == "__main__":
    main()
