#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of every kind, drawn at random: what nothing was fitted to. Writes experiments/data/drawn_configurations.csv.
  experiments/recipes/draw_networks.py ONCHIP CHIP NUMBER SEED > experiments/data/drawn_configurations.csv
  experiments/recipes/draw_networks.py libraries NUMBER SEED > experiments/data/libraries_configurations.csv
  experiments/recipes/draw_networks.py small NUMBER SEED
  experiments/recipes/draw_networks.py training NUMBER SEED > experiments/data/tuned_configurations.csv
  experiments/recipes/draw_networks.py stacks NUMBER SEED > experiments/data/training_stacks_configurations.csv
  experiments/recipes/draw_networks.py large NUMBER SEED > experiments/data/large_batches_configurations.csv

drawn_configurations.csv is of seeds 2026 and 2027, drawn_again_configurations.csv of seed 2028, 100 each, for an H100;
drawn_third_configurations.csv and drawn_fourth_configurations.csv of seeds 2029 and 2030, 150 each.

All cells and precisions; batches 1 to 64, half of them powers of two; densities from 1 to 100 %, evenly in their
logarithm; rows of uniform masks, of a power law (a fifth) or 2:4 (a tenth); and hidden sizes from 256 to a fifth beyond
the largest that `onchip fit` says stays on the chip (of a uniform mask where that of a power law is asked for), evenly
in their logarithm.

libraries_configurations.csv, to which the prices of libraries are fitted, is of seed 41, 200 networks: half of them in
fp32, from 32 units to as many as an LSTM of 4600 has weights, each with cuBLAS and with cuDNN.
drawn_fifth_configurations.csv is 42 networks of seed 2031 for an H200, and 18 small ones, of 32 to 256 units, of seed
2032; drawn_sixth_configurations.csv likewise of seeds 2033 and 2034.

tuned_configurations.csv is 40 layers that are trained, of seed 2035: 32 to 3000 units, batches 1 to 512, 16 to 2000
steps, evenly in their logarithms, whose gates take at most 4 GB. training_stacks_configurations.csv is 12 networks of
seed 2036, drawn so, of two to four layers or both directions or both.

large_batches_configurations.csv is 20 dense networks of seed 2037: 128 to 1600 units, 65 to 2048 samples."""
import concurrent.futures
import json
import os
import random
import subprocess
import sys

CELLS = ("relu", "tanh", "lstm", "gru")
PRECISIONS = ("fp16", "fp16", "bf16", "bf16", "fp32", "fp8")
MASKS = ("uniform",) * 7 + ("power-law",) * 2 + ("2:4",)
SMALLEST, BEYOND = 256, 1.2
STEPS = 256


def largest(onchip, chip, cell, batch, density, precision, mask):
    fit = subprocess.run([onchip, "fit", "--chip", chip, "--cell", cell, "--batch", str(batch), "--density",
                          str(density), "--precision", precision, "--mask", mask, "--format", "json"],
                         stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(fit.stdout)["network"]["hidden"]


def draw_for_libraries(number, seed):
    draw = random.Random(seed)
    print("cell,hidden,batch,density,precision,mask,seed,steps,plan")
    for _ in range(number):
        cell, precision = draw.choice(CELLS), draw.choice(("fp16", "bf16", "fp32", "fp32"))
        batch = 1 << draw.randrange(7) if draw.random() < 0.5 else round(64 ** draw.random())
        most = {"lstm": 4600, "gru": 5400}.get(cell, 9500)
        hidden = round(32 * (most / 32) ** draw.random())
        for plan in ("cublas_graph", "cudnn"):  # which computes with all weights, whatever the density
            print(cell, hidden, batch, 0.02, precision, "uniform", 1, STEPS, plan, sep=",")


def draw_training(number, seed):
    draw = random.Random(seed)
    print("cell,hidden,batch,precision,steps,input")
    while number > 0:
        cell, precision = draw.choice(("lstm", "lstm", "gru")), draw.choice(("fp16", "bf16"))
        hidden, batch = round(32 * (3000 / 32) ** draw.random()), round(512 ** draw.random())
        steps, input = round(16 * 125 ** draw.random()), round(32 * (3000 / 32) ** draw.random())
        if 12 * steps * batch * hidden <= 4e9:
            print(cell, hidden, batch, precision, steps, draw.choice((hidden, input)), sep=",")
            number -= 1


def draw_stacks(number, seed):
    draw = random.Random(seed)
    print("cell,hidden,batch,precision,steps,layers,directions")
    while number > 0:
        cell, precision = draw.choice(("lstm", "gru")), draw.choice(("fp16", "bf16"))
        hidden, batch = round(32 * (1500 / 32) ** draw.random()), round(256 ** draw.random())
        steps, layers, directions = round(16 * 40 ** draw.random()), draw.randint(1, 4), draw.choice((1, 2))
        if layers * directions > 1 and 12 * steps * batch * hidden * layers * directions <= 4e9:
            print(cell, hidden, batch, precision, steps, layers, directions, sep=",")
            number -= 1


def draw_large(number, seed):
    draw = random.Random(seed)
    print("cell,hidden,batch,density,precision,mask,seed,steps")
    while number > 0:
        cell, precision = draw.choice(("lstm", "gru")), draw.choice(("fp16", "bf16"))
        hidden, batch = round(128 * (1600 / 128) ** draw.random()), round(65 * (2048 / 65) ** draw.random())
        if hidden * batch <= 400_000:  # the reference takes seconds
            print(cell, hidden, batch, 1, precision, "uniform", 1, 64, sep=",")
            number -= 1


def draw_small(number, seed):
    draw = random.Random(seed)
    print("cell,hidden,batch,density,precision,mask,seed,steps")
    for _ in range(number):
        cell, precision = draw.choice(CELLS), draw.choice(PRECISIONS)
        batch = 1 << draw.randrange(7) if draw.random() < 0.5 else draw.randint(1, 64)
        hidden, density = round(32 * 8 ** draw.random()), round(0.01 * 100 ** draw.random(), 4)
        print(cell, hidden, batch, density, precision, "uniform", draw.randrange(1, 1000), STEPS, sep=",")


def main():
    draws = {"libraries": draw_for_libraries, "small": draw_small, "training": draw_training, "stacks": draw_stacks, "large": draw_large}
    if len(sys.argv) == 4 and sys.argv[1] in draws:
        return draws[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    if len(sys.argv) != 5:
        sys.exit("usage: experiments/recipes/draw_networks.py {ONCHIP CHIP | libraries | small | training | stacks | large} NUMBER SEED")
    onchip, chip, number, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    draw = random.Random(seed)
    networks = []
    for _ in range(number):
        cell, precision, mask = draw.choice(CELLS), draw.choice(PRECISIONS), draw.choice(MASKS)
        batch = 1 << draw.randrange(7) if draw.random() < 0.5 else draw.randint(1, 64)
        density = round(0.01 * 100 ** draw.random(), 4) if mask != "2:4" else 0.5
        networks.append((cell, precision, mask, batch, density, draw.random(), draw.randrange(1, 1000)))

    def size(network):
        cell, precision, mask, batch, density, place, _ = network
        most = BEYOND * largest(onchip, chip, cell, batch, density, precision, "2:4" if mask == "2:4" else "uniform")
        return round(SMALLEST * max(1, most / SMALLEST) ** place)

    print("cell,hidden,batch,density,precision,mask,seed,steps")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # of processes that answer
        for (cell, precision, mask, batch, density, _, seed), hidden in zip(networks, pool.map(size, networks)):
            print(cell, hidden, batch, density, precision, mask, seed, STEPS, sep=",", flush=True)


if __name__ == "__main__":
    main()
