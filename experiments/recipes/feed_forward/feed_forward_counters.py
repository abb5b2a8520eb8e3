#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a layer of a plan of blocks takes by hardware counter, and what simulate says that it takes, as CSV on stdout.

    experiments/recipes/feed_forward/feed_forward_counters.py ONCHIP CHIP      needs ncu and a GPU; under three minutes

One row each: a launch of 80 layers less one of 40, over 40 layers and the tiles of all images, none of which dies.
"""
import csv
import io
import subprocess
import sys

SHORT, LONG, LAYERS, IMAGES = 40, 80, 120, 2112
COUNTERS = {
    "counted_reads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "counted_writes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "counted_l2_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "counted_dram_bytes": "dram__bytes.sum",
}
CASES = ((1024, "4x1"), (1024, "2x1"), (1024, "2x2"), (496, "4x1"), (2048, "3x1!"), (4096, "2x1!"))  # neurons, tile


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main():
    onchip, chip = sys.argv[1:]
    writer = None
    for neurons, tile in CASES:
        network = f"random:neurons={neurons},layers={LAYERS},degree=32,blocks=16,values=0.0625,bias=-0.01,clip=32"
        wide = "1x2!" if "!" in tile else "2x2"
        counted, simulated = {}, {}
        for layers in (SHORT, LONG):
            plan = f"blocks warps=16 phases={layers}:{tile},{LAYERS}:{tile} lower={tile} wide={wide}"
            options = ["--network", network, "--plan", plan, "--images", f"digits:{IMAGES}", "--chip", chip]
            simulated = next(csv.DictReader(io.StringIO(run(onchip, "simulate", *options, "--format", "csv"))))
            text = run("ncu", "--csv", "--print-units", "base", "--graph-profiling", "node", "--kernel-name",
                       "feed_forward_blocks", "--launch-count", "1", "--metrics", ",".join(COUNTERS.values()), onchip,
                       "measure", *options, "--repeats", "1")
            for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
                counted[row["Metric Name"], layers] = float(row["Metric Value"].replace(",", ""))
        tiles = -(-IMAGES // (8 * int(tile[0])))
        result = {"network": network, "tile": tile}
        for name, metric in COUNTERS.items():
            result[name] = round((counted[metric, LONG] - counted[metric, SHORT]) / (LONG - SHORT) / tiles, 2)
        for name in ("read_wavefronts", "write_wavefronts", "l2_bytes"):
            result[name] = simulated[name]
        if writer is None:
            writer = csv.DictWriter(sys.stdout, result.keys(), lineterminator="\n")
            writer.writeheader()
        writer.writerow(result)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
