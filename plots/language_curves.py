# SPDX-License-Identifier: Apache-2.0
"""What a language model has learnt while it trains: perplexity on held-out text by torch.nn.LSTM and by onchip.LSTM with each stash, the
median of the seeds and their range. Reads rows of experiments/recipes/training/language_curves.py."""
import statistics

from style import BLUE, GREEN, GREY, INK, VERMILION, fail, number, parser, plt, read_csv, save, write_dump

WAYS = {"nn.LSTM": (VERMILION, "-"), "onchip gates": (BLUE, "--"), "onchip cells": (GREEN, ":")}
TICKS = (50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 700, 1000)
COLUMNS = ["device", "precision", "way", "seed", "iteration", "perplexity", "best_perplexity"]


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    curves = {}  # by precision and way: of each iteration the seeds' perplexities
    rows = [row for row in read_csv(options.data, COLUMNS) if row["way"] in WAYS]
    if not rows:
        fail(f"{options.data}: no rows")
    for row in rows:
        of = curves.setdefault(row["precision"], {}).setdefault(row["way"], {})
        of.setdefault(int(row["iteration"]), []).append(number(row, "perplexity"))
    best, most = number(rows[0], "best_perplexity"), max(number(row, "perplexity") for row in rows)

    figure, all_axes = plt.subplots(1, len(curves), figsize=(7.2, 3.3), squeeze=False, sharey=True)
    for axes, (precision, ways) in zip(all_axes[0], curves.items()):
        for place, (way, of) in enumerate(ways.items()):
            iterations, (color, line) = list(of), WAYS[way]
            axes.fill_between(iterations, *([of_seeds(seeds) for seeds in of.values()] for of_seeds in (min, max)), color=color, alpha=0.15,
                              linewidth=0)
            axes.plot(iterations, [statistics.median(seeds) for seeds in of.values()], color=color, linestyle=line)
            axes.text(0.98, 0.94 - 0.08 * place, f"{way}: {statistics.median(of[iterations[-1]]):.1f} at the end", transform=axes.transAxes,
                      ha="right", fontsize=8, color=color)
        axes.axhline(best, color=INK, linewidth=0.8)
        axes.annotate(f"best possible, {best:.1f}", (iterations[0], best), xytext=(0, -10), textcoords="offset points", fontsize=8, color=INK)
        axes.set_yscale("log")
        axes.set_ylim(0.85 * best, 1.05 * most)
        axes.set_yticks([tick for tick in TICKS if 0.85 * best <= tick <= 1.05 * most], minor=False)
        axes.yaxis.set_major_formatter(plt.FormatStrFormatter("%d"))
        axes.yaxis.set_minor_locator(plt.NullLocator())
        axes.set_xticks(iterations[1::2])
        axes.grid(True)
        axes.set_title(f"{precision}; bands: {max(map(len, of.values()))} seeds", fontsize=8, color=GREY)
        axes.set_xlabel("iterations")
    all_axes[0, 0].set_ylabel("perplexity on held-out text")
    figure.suptitle(f"Training to the same perplexity, {rows[0]['device']}", x=0.02, ha="left", fontsize=11, weight="bold")
    figure.subplots_adjust(left=0.09, right=0.98, top=0.83, bottom=0.15, wspace=0.08)
    save(figure, options.output)
    write_dump(options.dump, ["precision", "way", "iteration", "median", "least", "most"],
               [[precision, way, iteration, statistics.median(seeds), min(seeds), max(seeds)]
                for precision, ways in curves.items() for way, of in ways.items() for iteration, seeds in of.items()])


if __name__ == "__main__":
    main()
