#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `onchip tune` found: how much slower than the fastest of what was timed the model's choice is (regret), among its own
three plans and beside cuDNN, by the prices at the time. `onchip validate` says how far prices are off.
  experiments/recipes/training/tuned.py experiments/data/h200/tuned.csv"""
import csv
import itertools
import statistics
import sys

DOUBT = 0.08  # kLibraryDoubt of model/answer/training/training.hpp
SHAPE = ("cell", "hidden", "batch", "steps", "precision", "input")


def percent(shares):
    return f"{100 * statistics.mean(shares):.1f} % on average, {100 * max(shares):.1f} % at most, of {len(shares)}"


def main():
    rows = [row for row in csv.DictReader(open(sys.argv[1])) if row["us"]]
    among_own, beside_cudnn, faster = [], [], []
    for _, layer in itertools.groupby(rows, lambda row: [row[name] for name in SHAPE]):
        layer = list(layer)
        own, library = ([row for row in layer if row["rank"].isdigit() == is_own] for is_own in (True, False))
        if not own:
            continue
        us = [float(row["us"]) for row in own]
        among_own.append(us[0] / min(us) - 1)
        if library:
            library_us = float(library[0]["us"])
            takes_own = float(own[0]["predicted_us"]) <= (1 - DOUBT) * float(library[0]["predicted_us"])
            beside_cudnn.append((us[0] if takes_own else library_us) / min(*us, library_us) - 1)
            faster.append(library_us / min(us))
    print(f"the first of three plans is slower than the fastest by {percent(among_own)}")
    print(f"the model's choice, cuDNN among them, by               {percent(beside_cudnn)}")
    print(f"cuDNN, unpadded, in a graph, takes {statistics.geometric_mean(faster):.2f} times as long as the fastest plan, "
          f"{min(faster):.2f} at least")


if __name__ == "__main__":
    main()
