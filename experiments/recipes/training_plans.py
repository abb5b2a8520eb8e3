#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps to be measured, as a CSV for onchip measure --mode train --configurations: the kernels' own pick at many
sizes, and at some of them plans with fields otherwise.
  experiments/recipes/training_plans.py [grid|sizes|plans ...] > FILE.csv"""
import csv
import random
import sys

HIDDEN, BATCH = (256, 512, 1024, 1536, 2048), (16, 64, 128, 256, 512)


def grid():
    """Every hidden size and batch, in both types."""
    return [dict(hidden=h, batch=b, precision=p) for p in ("fp16", "bf16") for h in HIDDEN for b in BATCH]


def sizes():
    """Off the grid: other steps, inputs and batches, drawn once."""
    draw = random.Random(35)
    rows = []
    for _ in range(40):
        hidden = draw.choice((96, 128, 200, 320, 384, 400, 640, 650, 768, 800, 896, 1152, 1280, 1408, 1664, 1792))
        batch = draw.choice((1, 4, 8, 20, 32, 48, 64, 96, 100, 128, 160, 200, 256))
        steps = draw.choice((35, 64, 100, 200, 300, 512))
        if hidden * batch <= 160_000:
            rows.append(dict(hidden=hidden, batch=batch, steps=steps, input=draw.choice((hidden, 64, 512, 1024)),
                             precision=draw.choice(("fp16", "bf16"))))  # fmt: skip
    return rows


def fields(**values):
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def plans():
    """Plans of both recurrences. Either is timed for itself, so a row tries one of each."""
    rows = []
    for hidden, batch in ((512, 64), (512, 256), (512, 512), (1024, 16), (1024, 64), (1024, 128), (1536, 16), (1536, 64),
                          (2048, 64)):  # fmt: skip
        most_groups = max(1, 132 * 16 // hidden)
        forward, backward = [], []
        for groups in {most_groups, max(1, most_groups // 2)}:
            of_group = -(-batch // groups)
            for samples in (8, 16, 32, 64):
                if samples > max(8, of_group):
                    continue
                turns = -(-of_group // samples)
                if turns > 8:
                    continue
                tiles = -(-(-(-of_group // turns)) // 8)
                for warps in (8, 16):
                    for loads in (8, 16, 32):
                        if loads % (2 * tiles):
                            continue
                        forward.append(fields(groups=groups, turns=turns, warps=warps, loads_in_flight=loads))
                        for split in (1, 2, 4):
                            backward.append(fields(groups=groups, turns=turns, warps=warps, split=split,
                                                   loads_in_flight=loads))  # fmt: skip
        draw = random.Random(hidden * 1000 + batch)
        draw.shuffle(forward)
        draw.shuffle(backward)
        for i in range(max(len(forward), len(backward))):
            rows.append(dict(hidden=hidden, batch=batch, precision="fp16",
                             plan_forward=forward[i % len(forward)], plan_backward=backward[i % len(backward)]))  # fmt: skip
    return rows


def main():
    columns = ["cell", "hidden", "batch", "steps", "precision", "input", "plan_forward", "plan_backward"]
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for part in sys.argv[1:] or ("grid", "sizes", "plans"):
        writer.writerows({"cell": "lstm", **row} for row in {"grid": grid, "sizes": sizes, "plans": plans}[part]())


if __name__ == "__main__":
    main()
