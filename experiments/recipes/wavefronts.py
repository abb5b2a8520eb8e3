#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shared-memory wavefronts by hardware counter, as CSV on stdout: networks of every cell, type, batch, width of loads and
order of rows, with all weights in registers, in shared memory and streamed.

    experiments/recipes/wavefronts.py ONCHIP CHIP

One row each: the wavefronts of one step, of all SMs, counted as those of a launch of 2 T steps less those of one of T
steps, each the median of three launches: now and then a launch has a few more. tests/experiments/simulation/wavefronts_test.cpp
holds the simulator to them.

Most are run with a barrier instead of polling: what is polled comes to the lanes of a warp at different times, and they
store it one after another, so that the wavefronts of stores are not the same from run to run.
"""
import csv
import json
import subprocess
import sys

STEPS = 32
COUNTERS = {
    "load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
CELLS = ("relu", "lstm", "tanh", "gru")
PRECISIONS = ("fp16", "bf16", "fp32", "fp16", "fp8")
BATCHES = (4, 1, 8, 2, 3, 16)
HIDDEN = (512, 1023, 700, 1400, 1152)
DENSITIES = (0.1, 0.3, 0.05)
LOAD_BYTES = (16, 8, 4)
ORDERS = ("bank_aware", "natural")
BARRIER = ["--exchange", "atomic_barrier"]
FEW_REGISTERS = (  # so that networks small enough to be counted fast have overflow
    ["--set", "registers.per_block=16384", "--set", "registers.per_sm=16384", "--set", "sm.count=64"],
    ["--set", "registers.per_block=16384", "--set", "registers.per_sm=16384", "--set", "sm.count=40",
     "--set", "shared_memory.per_block=64KiB", "--set", "shared_memory.per_sm=65KiB"],
)


def networks():
    """Options of the network, and those with which its plan is made."""
    for i in range(60):
        yield ({"cell": CELLS[i % 4], "hidden": HIDDEN[i % 5], "batch": BATCHES[i % 6], "density": DENSITIES[i // 4 % 3],
                "precision": PRECISIONS[i % 5], "mask": "power-law" if i % 7 == 6 else "uniform", "seed": i},
               ["--order", ORDERS[i // 2 % 2], "--load-bytes", str(LOAD_BYTES[i // 3 % 3]), *BARRIER])
    for i in range(8):
        yield ({"cell": CELLS[i % 4], "hidden": HIDDEN[i % 5], "batch": BATCHES[i % 6], "density": 0.1, "precision": "fp16",
                "mask": "uniform", "seed": i}, ["--exchange", "lamport", "--producer-warps", "0"])
    for i in range(10):
        yield ({"cell": CELLS[i % 4], "hidden": HIDDEN[i % 5], "batch": (4, 2, 8)[i % 3], "density": 0.3,
                "precision": PRECISIONS[i % 5], "mask": "power-law" if i % 3 == 2 else "uniform", "seed": i}, [*FEW_REGISTERS[i % 2], *BARRIER])


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main():
    onchip, chip = sys.argv[1:]
    writer = None
    for network, asked in networks():
        network["steps"] = STEPS
        options = [word for key, value in network.items() for word in ("--" + key, str(value))]
        answer = json.loads(run(onchip, "predict", "--chip", chip, "--family", "sparse_persistent", *options, *asked, "--format", "json"))
        options += ["--plan", answer["plan"]["text"]]
        # The last two launches are those of the last sample of a step: the recurrence of T steps and of 2 T steps.
        text = run("ncu", "--csv", "--kernel-name", "sparse_persistent", "--metrics", ",".join(COUNTERS.values()), onchip,
                   "measure", "--chip", chip, "--repeats", "1", *options)
        values = {}
        for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
            values.setdefault(row["Metric Name"], []).append(int(row["Metric Value"].replace(",", "")))
        result = {**network, "plan": answer["plan"]["text"]}
        for name, metric in COUNTERS.items():
            short, long = values[metric][-2:]
            result[name] = (long - short) / STEPS
        if writer is None:
            writer = csv.DictWriter(sys.stdout, result.keys(), lineterminator="\n")
            writer.writeheader()
        writer.writerow(result)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
