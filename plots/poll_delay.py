# SPDX-License-Identifier: Apache-2.0
"""How long warps should wait before they first poll for the next state: step times of networks by that delay, the darker
the slower than the best of the row. Reads measured rows (poll_delay.csv of experiments/recipes/record.sh)."""
from style import GREY, INK, describe, fail, number, parser, plan_number, plt, read_csv, save, write_dump

COLUMNS = ["cell", "hidden", "batch", "density", "precision", "mask", "plan", "step_us"]
MOST = 0.25  # slower than the best: the darkest


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    families = {"sparse_persistent": {}, "dense_persistent": {}}  # -> network -> delay -> us
    for row in read_csv(options.data, COLUMNS):
        family = row["plan"].split()[0]
        if row["step_us"] and family in families:
            families[family].setdefault(describe(row), {})[plan_number(row["plan"], "poll_delay")] = number(row, "step_us")
    families = {family: networks for family, networks in families.items() if networks}
    if not families:
        fail(f"{options.data}: no rows with a step time")

    counts = [len(networks) for networks in families.values()]
    height = 1.1 + 0.24 * sum(counts) + 0.35 * len(counts)
    figure, all_axes = plt.subplots(len(counts), 1, figsize=(7.2, height), squeeze=False,
                                    gridspec_kw={"height_ratios": counts})
    drawn = []
    for axes, (family, networks) in zip(all_axes[:, 0], families.items()):
        delays = sorted({delay for steps in networks.values() for delay in steps})
        slower = [[steps[delay] / min(steps.values()) - 1 if delay in steps else float("nan") for delay in delays]
                  for steps in networks.values()]
        axes.imshow(slower, aspect="auto", cmap="Blues", vmin=0, vmax=MOST)
        for y, (name, steps) in enumerate(networks.items()):
            for x, delay in enumerate(delays):
                if delay in steps:
                    best = steps[delay] == min(steps.values())
                    axes.text(x, y, f"{steps[delay]:.2f}", ha="center", va="center", fontsize=8,
                              weight="bold" if best else "normal",
                              color="white" if slower[y][x] > 0.6 * MOST else INK)
                    drawn.append([family, name, delay, steps[delay]])
        axes.set_xticks(range(len(delays)), delays)
        axes.set_yticks(range(len(networks)), networks, fontsize=8)
        axes.set_title(family, fontsize=9)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    all_axes[-1, 0].set_xlabel("delay before the first poll for the next state, cycles")
    figure.subplots_adjust(left=0.26, right=0.98, top=1 - 0.78 / height, bottom=0.45 / height, hspace=0.14)
    figure.text(0.02, 1 - 0.28 / height, "What a delay before the first poll is worth", fontsize=11, weight="bold")
    figure.text(0.98, 1 - 0.28 / height, "µs per step; bold: the best", ha="right", fontsize=8, color=GREY)
    save(figure, options.output)
    write_dump(options.dump, ["family", "configuration", "delay", "us"], drawn)


if __name__ == "__main__":
    main()
