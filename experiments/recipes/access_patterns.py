#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wavefronts of single accesses to shared memory by hardware counter, and how long blocks take that share an SM.

    experiments/recipes/access_patterns.py FOLDER      needs nvcc, ncu and a GPU; under three minutes

FOLDER/access_patterns.csv: each access made 1000 times by one warp; wavefronts of one, without those of waits for copies
(3 each). Half of the patterns are drawn at random. Copies that bypass L1 (cp.async.cg) have none of their own.
FOLDER/residency.csv: 1 to 8 blocks on every SM.
tests/experiments/simulation/access_patterns_test.cpp holds the simulator to both.
"""
import csv
import pathlib
import random
import subprocess
import sys
import tempfile

ACCESSES = 1000
COUNTER = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
COUNTED, WAITS = COUNTER + ".sum", COUNTER + "_op_misc.sum"
ALL = 0xFFFFFFFF
OPERATIONS = (("lds", 4), ("lds", 8), ("lds", 16), ("sts", 4), ("sts", 8), ("sts", 16), ("ldsm_x1", 16), ("ldsm_x2", 16),
              ("ldsm_x4", 16), ("atoms_add", 4), ("ldgsts", 4), ("ldgsts", 8), ("ldgsts", 16))
LANES = range(32)


def made_by_hand(width):
    """Name, mask and what each lane asks for, in units of the width."""
    row = 128 // width  # that all banks deliver
    same_as = {
        "consecutive": lambda i: i, "broadcast": lambda i: 0, "one_bank": lambda i: row * i, "pairs_1": lambda i: i // 2,
        "pairs_2": lambda i: i // 4 * 2 + i % 2, "pairs_4": lambda i: i // 8 * 4 + i % 4, "halves": lambda i: i % 16,
        "quarters": lambda i: i % 8, "pairs_2_with_gaps": lambda i: i & ~2,
        "pairs_1_below": lambda i: i // 2 if i < 16 else i, "pairs_1_then_2": lambda i: i // 2 if i < 16 else i // 4 * 2 + i % 2,
        "pairs_1_one_bank": lambda i: row * (i // 2), "pairs_2_one_bank": lambda i: row * (i & ~2),
        "two_rows": lambda i: row * (i % 2) + i // 2,
    }
    for name, ask in same_as.items():
        yield name, ALL, [ask(i) for i in LANES]
    masks = {"one_lane": 1, "even_lanes": 0x55555555, "lanes_0_1_of_4": 0x33333333, "lower_8": 0xFF, "one_of_8": 0x01010101,
             "lanes_0_3_of_4": 0x99999999}
    for name, mask in masks.items():
        yield name, mask, list(LANES)


def drawn(draw, width):
    """The same, at random: of little or much memory, all lanes or some, alike in pairs or not."""
    for number in range(20):
        units = (32, 128, 1024)[number % 3] * 4 // width * (4 if width > 4 else 1)
        ask = [draw.randrange(units) for _ in LANES]
        pairs = (0, 1, 2, 0, 2)[number % 5]
        ask = [ask[i & ~pairs] for i in LANES]
        mask = ALL if number % 2 else draw.getrandbits(32)
        yield f"random_{units}" + (f"_pairs_{pairs}" if pairs else ""), mask, ask


def patterns():
    draw = random.Random(32)
    for operation, width in OPERATIONS:
        for name, mask, ask in [*made_by_hand(width), *drawn(draw, width)]:
            is_matrix = operation.startswith("ldsm")  # all lanes take part in it
            addresses = [width * unit for unit in ask]
            assert max(addresses) + width <= 32768
            yield {"pattern": name, "operation": operation, "width": width,
                   "mask": f"{ALL if is_matrix else mask:08x}", "addresses": " ".join(map(str, addresses))}


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def count(program, rows, folder):
    """Adds the wavefronts of one access to each row."""
    asked = folder / "patterns"
    asked.write_text("".join(f"{row['operation']} {row['width']} {row['mask']} {row['addresses']}\n" for row in rows))
    text = run("ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none", "--metrics",
               f"{COUNTED},{WAITS}", program, "patterns", str(asked))
    values = {COUNTED: [], WAITS: []}
    for counted in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        values[counted["Metric Name"]].append(float(counted["Metric Value"].replace(",", "")))
    for row, counted, waits in zip(rows, values[COUNTED], values[WAITS], strict=True):
        row["wavefronts"] = f"{(counted - waits) / ACCESSES:g}"


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rows = list(patterns())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = str(folder / "access_patterns")
        run("nvcc", "-std=c++17", "-O3", "-arch=native", "-o", program, str(pathlib.Path(__file__).with_suffix(".cu")))
        (out / "residency.csv").write_text(run(program, "residency"))
        count(program, rows, folder)
    with (out / "access_patterns.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
