# SPDX-License-Identifier: Apache-2.0
"""What takes the memory of training a translation network, as shares of what torch.nn takes at most, beside Echo's before and after:
scores of attention and their gradients at most, what recurrent layers keep for backward, and the rest. Reads rows of
experiments/recipes/training/translation.py."""
from style import BLUE, GREY, INK, LIGHT, ORANGE, draw_key, fail, number, parser, plt, read_csv, save, write_dump

WAYS = {"torch": "torch.nn, eager attention", "gates": "onchip, gates", "cells": "onchip, cells"}
PARTS = {"peak_mib": "rest", "recurrent_mib": "recurrent layers", "scores_peak_mib": "attention"}  # the first is all
COLORS = {"attention": BLUE, "recurrent layers": ORANGE, "rest": LIGHT}
COLUMNS = ["device", "precision", "batch", "steps", *(f"{way}_{part}" for way in WAYS for part in PARTS)]
# Zheng et al., Echo: 9121 and 4375 MB of an iteration, and the parts' shares of it, on a TITAN Xp (their result files).
ECHO = {"before": (9121, {"attention": 0.59, "recurrent layers": 0.21, "rest": 0.20}),
        "after": (4375, {"attention": 0.06, "recurrent layers": 0.46, "rest": 0.48})}  # fmt: skip


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    networks = {"Echo's figures, TITAN Xp, fp32": {name: {part: share * mb for part, share in shares.items()}
                                                   for name, (mb, shares) in ECHO.items()}}  # fmt: skip
    rows = [row for row in read_csv(options.data, COLUMNS) if row["precision"] == "fp16"]
    if not rows:
        fail(f"{options.data}: no rows in fp16")
    for row in rows:
        network = networks.setdefault(f"{row['device']}, fp16, {row['steps']} steps, {row['batch']} samples", {})
        for way, name in WAYS.items():
            most, recurrent, scores = (number(row, f"{way}_{part}") for part in PARTS)
            network[name] = {"attention": scores, "recurrent layers": recurrent, "rest": most - recurrent - scores}

    counts = [len(bars) for bars in networks.values()]
    height = 1.0 + 0.3 * sum(counts) + 0.4 * len(counts)
    figure, all_axes = plt.subplots(len(counts), 1, figsize=(7.2, height), squeeze=False, gridspec_kw={"height_ratios": counts})
    drawn = []
    for axes, (network, bars) in zip(all_axes[:, 0], networks.items()):
        before = sum(next(iter(bars.values())).values())
        for y, (name, parts) in enumerate(bars.items()):
            end = 0
            for part, size in parts.items():
                axes.barh(y, size / before, left=end, height=0.7, color=COLORS[part])
                end += size / before
                drawn.append([network, name, part, size])
            fold = "" if y == 0 else f", {1 / end:.2f} times less"
            axes.text(end + 0.01, y, f"{end * before / (1000 if network.startswith('Echo') else 1024):.2f} "
                      f"{'GB' if network.startswith('Echo') else 'GiB'}{fold}", va="center", fontsize=8, color=INK)  # fmt: skip
        axes.set(xlim=(0, 1.2), ylim=(len(bars) - 0.4, -0.6))
        axes.set_yticks(range(len(bars)), bars, fontsize=8)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines["bottom"].set_visible(False)
        axes.set_title(network, fontsize=8, color=GREY)
    figure.subplots_adjust(left=0.24, right=0.98, top=1 - 0.85 / height, bottom=0.1 / height, hspace=0.55)
    figure.text(0.02, 1 - 0.25 / height, "The memory of training a translation network", fontsize=11, weight="bold", va="center")
    draw_key(figure, COLORS, 0.24 * 7.2, height - 0.5)
    save(figure, options.output)
    write_dump(options.dump, ["network", "way", "part", "mib"], drawn)


if __name__ == "__main__":
    main()
