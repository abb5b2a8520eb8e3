#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the recurrent product of layouts.py reads by hardware counter: each of four steps once below ncu, which needs the rights to
read counters. A CSV, with sums over all launches: MiB read from and written to device memory, MiB that L2 was asked for, the
percentage of these that hit, and launches. L2 has nothing of a product before its first launch, and ncu leaves caches alone.

FILE gets what ncu says, with the name of each launch's kernel; if it is there, it is only read. About a minute on a GPU.
  PYTHONPATH=python experiments/recipes/training/layouts_counters.py FILE > experiments/data/h200/layouts_counters.csv"""
import csv
import pathlib
import re
import subprocess
import sys

import torch
from layouts import KEY, LAYOUTS, made

CASES = [(precision, hidden, batch) for precision in ("fp32", "fp16") for hidden, batch in ((512, 32), (1024, 128), (4096, 128))]
PRODUCT, STEPS = "recurrent_product", 4
COUNTERS = ("dram__sectors_read.sum", "dram__sectors_write.sum", "lts__t_sectors.sum", "lts__t_sector_hit_rate.pct")
KINDS = ("read_mib", "written_mib", "l2_mib", "l2_hit_percent", "launches")
SECTORS_PER_MIB = 2**15


def run_marked():
    more_than_l2 = torch.ones(2**26, device="cuda")  # 256 MiB; read, so that L2 has nothing to write back
    for precision, hidden, batch in CASES:
        for name, (run, _) in made(precision, hidden, batch, STEPS)[PRODUCT].items():
            run()
            more_than_l2.sum()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda.nvtx.range_push(f"layouts|{precision}|{hidden}|{batch}|{name}|")
            run()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            torch.cuda.profiler.stop()


def run_ncu(file):
    command = ["ncu", "--csv", "--nvtx", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
               "--profile-from-start", "off", "--metrics", ",".join(COUNTERS)]  # fmt: skip
    ran = subprocess.run([*command, sys.executable, __file__, "--marked"], stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"ncu ended with exit status {ran.returncode}:\n{ran.stdout[-2000:]}")
    file.write_text(ran.stdout)


def read_launches(file):
    """By mark, as precision, hidden, batch and layout: of each launch its counters."""
    launches = {}
    for row in csv.DictReader(line for line in file.read_text().splitlines() if line.startswith('"')):
        mark = re.search(r"layouts\|(\w+)\|(\d+)\|(\d+)\|(\w+)\|", " ".join(row.values()))
        if mark is None:
            sys.exit(f"{file}: launch {row['ID']} has no mark")
        of_launch = launches.setdefault(mark.groups(), {}).setdefault(row["ID"], {})
        of_launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return {mark: [[by_counter[name] for name in COUNTERS] for by_counter in of.values()] for mark, of in launches.items()}


def main():
    file = pathlib.Path(sys.argv[1])
    if not file.exists():
        run_ncu(file)
    launches = read_launches(file)
    print(f"{KEY},{','.join(f'{name}_{kind}' for name in LAYOUTS for kind in KINDS)}")
    for precision, hidden, batch in CASES:
        cells = [torch.cuda.get_device_name(), "lstm", precision, hidden, batch, STEPS, 1, PRODUCT]
        for layout in LAYOUTS:
            of = launches.get((precision, str(hidden), str(batch), layout))
            if of is None:
                sys.exit(f"{file}: no launch of {layout} in {precision}, {hidden} units, batch {batch}")
            read, written, l2 = (sum(sectors) / SECTORS_PER_MIB for sectors in list(zip(*of))[:3])
            hits = sum(sectors * percent for *_, sectors, percent in of) / SECTORS_PER_MIB
            cells += [f"{read:.2f}", f"{written:.2f}", f"{l2:.2f}", f"{hits / l2:.1f}", len(of)]
        print(*cells, sep=",")


if __name__ == "__main__":
    run_marked() if sys.argv[1:] == ["--marked"] else main()
