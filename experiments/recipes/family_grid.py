#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The grid on which the families are measured beside each other: writes experiments/data/family_configurations.csv.
  experiments/recipes/family_grid.py ONCHIP > experiments/data/family_configurations.csv

Every cell, batches of 1, 4, 32 and 64 (the most that kernels take), densities from 1 to 100 %, and hidden sizes 256, 512,
1024, ... up to the largest that stays on an H200 in any family, with that one, in fp16; in bf16 batch 8 alone, without
the largest, which is what `onchip fit` says, in multiples of 32."""
import json
import subprocess
import sys

CELLS = ("relu", "tanh", "lstm", "gru")
BATCHES = (1, 4, 32, 64)
DENSITIES = (0.01, 0.03, 0.1, 0.3, 1)
STEPS = 256


def largest(onchip, cell, batch, density, precision):
    fit = subprocess.run([onchip, "fit", "--chip", "h200", "--cell", cell, "--batch", str(batch), "--density",
                          str(density), "--precision", precision, "--format", "json"],
                         stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(fit.stdout)["network"]["hidden"]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: experiments/recipes/family_grid.py ONCHIP")
    onchip = sys.argv[1]
    print("cell,hidden,batch,density,precision,mask,seed,steps")
    for precision, batches in (("fp16", BATCHES), ("bf16", (8,))):
        for cell in CELLS:
            for batch in batches:
                for density in DENSITIES:
                    most = largest(onchip, cell, batch, density, precision)
                    sizes = [256 << i for i in range(8) if 256 << i < 0.8 * most] + [most]
                    for hidden in sizes if precision == "fp16" else sizes[:-1]:
                        print(cell, hidden, batch, density, precision, "uniform", 1, STEPS, sep=",")


if __name__ == "__main__":
    main()
