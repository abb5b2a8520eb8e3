#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of one launch of each plan, as CSV on stdout.

    experiments/recipes/counters.py ONCHIP CHIP ABLATION

Of ABLATION (ablation.csv of experiments/recipes/record.sh) the plans with the Lamport exchange, one row each: shared-memory
wavefronts beside what the layout says its gathers take. Then networks in every tier at two numbers of steps: what a
resident weight costs in global loads does not grow with the steps, what a streamed one costs does.
"""
import csv
import subprocess
import sys

COUNTERS = {
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "all_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "dram_read_sectors": "dram__sectors_read.sum",
    "cycles": "sm__cycles_elapsed.max",
}
RESIDENCY = (  # cell, hidden, batch, density, family; sparse: registers only; shared memory too; streamed too
    ("relu", 2304, 4, 0.3, "sparse_persistent"),
    ("lstm", 2304, 4, 0.1, "sparse_persistent"),
    ("lstm", 4608, 4, 0.1, "sparse_persistent"),
    ("lstm", 5632, 4, 0.1, "sparse_persistent"),
    ("relu", 4096, 8, 1.0, "dense_persistent"),
)


def count(onchip, arguments):
    """Counters of the second launch of the kernel: the first checks its results."""
    command = ["ncu", "--csv", "--kernel-name", "regex:(sparse|dense)_persistent", "--launch-skip", "1", "--launch-count", "1",
               "--metrics", ",".join(COUNTERS.values()), onchip, "measure", "--repeats", "1", *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    found = {row["Metric Name"]: row["Metric Value"].replace(",", "") for row in csv.DictReader(lines)}
    return [found[metric] for metric in COUNTERS.values()]


def network(row):
    arguments = []
    for option in ("cell", "hidden", "batch", "density", "precision", "mask", "seed", "steps", "plan"):
        arguments += ["--" + option, row[option]]
    return arguments


def main():
    onchip, chip, ablation = sys.argv[1:]
    columns = ["cell", "hidden", "batch", "density", "precision", "mask", "seed", "steps", "nnz", "plan",
               "gather_wavefronts"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns + list(COUNTERS))
    with open(ablation, newline="") as file:
        rows = [row for row in csv.DictReader(file) if " lamport " in row["plan"] and row["correct"] == "1"]
    for row in rows:
        writer.writerow([row[column] for column in columns] + count(onchip, ["--chip", chip, *network(row)]))
        sys.stdout.flush()
    for cell, hidden, batch, density, family in RESIDENCY:
        for steps in (256, 512):
            arguments = ["--chip", chip, "--cell", cell, "--hidden", str(hidden), "--batch", str(batch),
                         "--density", str(density), "--family", family, "--steps", str(steps)]
            text = subprocess.run([onchip, "measure", "--repeats", "1", "--format", "csv", *arguments],
                                  stdout=subprocess.PIPE, text=True, check=True).stdout
            row = next(csv.DictReader(text.splitlines()))
            writer.writerow([row[column] for column in columns] + count(onchip, arguments))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
