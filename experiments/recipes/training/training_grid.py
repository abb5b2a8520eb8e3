#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What training.sh measured on its grid, as tables: us per step of the chosen plan and of the best cuDNN, geometric means
of their ratios, and every cell that does not win, with its floor: the six products at 700 TFLOP/s.
  experiments/recipes/training/training_grid.py experiments/data/<gpu>/training_grid.csv"""
import csv
import math
import sys

FLOPS, SMALL, GATES = 700e12, 65_536, {"lstm": 4, "gru": 3}


def cells(path):
    """By cell, type, hidden size and batch: us of onchip's kernels and of the best cuDNN; whether cuDNN is chosen."""
    found = {}
    for row in csv.DictReader(open(path)):
        key = (row["cell"], row["precision"]), int(row["hidden"]), int(row["batch"])
        cell = found.setdefault(key, {"onchip": math.nan, "cudnn": math.nan, "cudnn_chosen": False, "way": ""})
        library = row["library"].split()[0]
        if library == "onchip":
            cell["onchip"] = float(row["us"] or "nan")
            cell["cudnn_chosen"] = row["pick"] != "true"
        elif library == "cudnn" and row["best"] == "true":
            cell["cudnn"], cell["way"] = float(row["us"]), row["library"]
    return found


def chosen_us(cell):
    return cell["cudnn"] if cell["cudnn_chosen"] or math.isnan(cell["onchip"]) else cell["onchip"]


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main():
    found = cells(sys.argv[1])
    for network, precision in dict.fromkeys(key[0] for key in found):
        of = {key[1:]: cell for key, cell in found.items() if key[0] == (network, precision)}
        batches = sorted({batch for _, batch in of})
        print(f"\n{network}, {precision}, chosen plan / best cuDNN, us per step\n\n"
              "| hidden | " + " | ".join(map(str, batches)) + " |")
        print("|---|" + "---|" * len(batches))
        for hidden in sorted({hidden for hidden, _ in of}):
            row = []
            for batch in batches:
                cell = of.get((hidden, batch))
                us = math.nan if cell is None else chosen_us(cell)
                row.append("" if cell is None else
                           f"{'cuDNN' if us == cell['cudnn'] else format(us, '.2f')} / {cell['cudnn']:.2f}")
            print(f"| {hidden} | " + " | ".join(row) + " |")
        ratios = {key: cell["cudnn"] / chosen_us(cell) for key, cell in of.items()}
        small = [ratio for (hidden, batch), ratio in ratios.items() if hidden * batch <= SMALL]
        print(f"\nGeometric mean of {len(ratios)} cells: {geometric_mean(list(ratios.values())):.2f}x; of the {len(small)} with "
              f"H * B of at most {SMALL}: {geometric_mean(small):.2f}x. Slowest: {min(ratios.values()):.3f}x.")
        for (hidden, batch), ratio in ratios.items():
            cell = of[hidden, batch]
            if ratio <= 1.0:
                print(f"- {hidden}/{batch}: {ratio:.2f}x, onchip's kernels {cell['onchip']:.1f}, cuDNN {cell['cudnn']:.1f}, "
                      f"floor {GATES[network] * 12 * hidden**2 * batch / FLOPS * 1e6:.1f}")


if __name__ == "__main__":
    main()
