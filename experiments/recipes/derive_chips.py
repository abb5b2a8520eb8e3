#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the numbers that chip files take from the H200's up to date: those whose source says that they are estimated from its
figure. Run it after the H200 has been calibrated anew.
  experiments/recipes/derive_chips.py            rewrites model/chips/*.toml
  experiments/recipes/derive_chips.py --check    names what would change; exit status 1 if anything would

What is scaled, and by what, is said in the source of each number; the ratios stand below. Intervals keep their width relative to
the number, and a number that would move by less than half a percent stays as it is written."""
import argparse
import pathlib
import re
import sys
import tomllib

CHIPS = pathlib.Path(__file__).resolve().parents[2] / "model" / "chips"
H200_L2 = 263  # cycles, Luo et al. on H800
# From the chips that were measured (compute capability 9). An interval is twice as wide one generation away, and three
# times as wide with each further: so it reaches the two steps that were published for a P100.
GENERATIONS = {"a100": 1, "b200": 1, "l40s": 1, "rtx_4090": 1, "v100": 2, "p100": 3, "titan_x_maxwell": 3}  # no wider
H200_BYTES = 3942 / 114  # of L2, per cycle and SM, Luo et al. on H800 PCIe


def ratios(h200):
    """Of each chip to the H200: L2 latency, time to the first word of an exchange, bytes of L2 per cycle and SM."""
    barrier = h200["timing"]["grid_barrier"]["value"]
    pascal_l2, pascal_latency = 234 / H200_L2, 1.77 / barrier
    return {
        "a100": (261.5 / H200_L2, 1.37 / 1.22, 2008 / 108 / H200_BYTES),
        "b200": (295 / 281, 295 / 281, 1),
        "l40s": (273 / H200_L2, 0.66 / barrier, 1708 / 142 / H200_BYTES),
        "rtx_4090": (273 / H200_L2, 0.66 / barrier, 1708 / 128 / H200_BYTES),
        "v100": (193 / H200_L2, 1.43 / barrier, 0.5),
        "p100": (pascal_l2, pascal_latency, 0.5),
        "titan_x_maxwell": (pascal_l2, pascal_latency * 1480 / 1075, 0.5),
    }


def derived(h200, chip, ratio, generations):
    """(section, key): value, for what may be taken from the H200's; whether it is, the number's source says."""
    l2, latency, l2_bytes = ratio
    exchange, timing = h200["exchange"], h200["timing"]
    clocks = chip["sm"]["clock"]["value"] / h200["sm"]["clock"]["value"]
    first_word = exchange["latency"]["value"] + exchange["signal"]["value"] + 3 * timing["lds_latency"]["value"]
    values = {("exchange", "latency"): first_word * latency * clocks - exchange["signal"]["value"] * l2 -
              3 * chip["timing"]["lds_latency"]["value"],
              ("exchange", "bytes_per_cycle_per_sm"): exchange["bytes_per_cycle_per_sm"]["value"] * l2_bytes,
              ("exchange", "scatter"): exchange["scatter"]["value"] * 2 * 3**(generations - 1)}
    for key in ("round_trip", "per_sm", "per_word", "l2_latency", "l2_latency_spread", "signal"):
        values["exchange", key] = exchange[key]["value"] * l2
    for key in ("per_warp", "look", "look_per_word", "before_barrier"):
        values["exchange", key] = exchange[key]["value"]
    for key in ("instruction_cache", "instruction_supply", "sm_instruction_cache", "sm_instruction_supply",
                "lds_latency_per_word"):
        values["timing", key] = timing[key]["value"]
    for key in ("latency", "per_sm", "per_warp", "bytes_per_cycle", "per_byte_and_sm", "sums", "sums_per_byte"):
        values["cluster", key] = h200["cluster"][key]["value"]
    values["timing", "grid_barrier"] = timing["grid_barrier"]["value"] * latency
    speed = [c["sm"]["count"]["value"] * c["sm"]["clock"]["value"] for c in (chip, h200)]
    values["library", "l2_bandwidth"] = h200["library"]["l2_bandwidth"]["value"] * speed[0] / speed[1] * l2_bytes
    return values


def rounded(value):
    return f"{float(f'{value:.4g}'):g}" if abs(value) < 1e4 else str(int(float(f"{value:.4g}")))


def rewrite(path, chip, values):
    """The text with these values, and what has changed."""
    section, lines, changed = "", [], []
    for line in path.read_text().splitlines(keepends=True):
        header = re.match(r"\[(\w+)\]", line)
        section = header[1] if header else section
        key = re.match(r"(\w+) = \{ value = ([^,]+),", line)
        wanted = values.get((section, key[1])) if key else None
        if wanted is not None and re.match("estimated: .*(H200's figure|an H200$|P100's estimate)", chip[section][key[1]]["source"]):
            before = chip[section][key[1]]["value"]
            if abs(wanted - before) > 0.005 * before:
                changed.append(f"{path.name}: {section}.{key[1]}: {before:g} -> {rounded(wanted)}")
                line = line.replace(f"value = {key[2]}", f"value = {rounded(wanted)}", 1)
                low_high = re.search(r"interval = \[([^,]+), ([^\]]+)\]", line)
                if low_high and before > 0:
                    ends = ", ".join(f"{float(f'{float(end) * wanted / before:.3g}'):g}" for end in low_high.groups())
                    line = line.replace(low_high[0], f"interval = [{ends}]", 1)
        lines.append(line)
    return "".join(lines), changed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would change")
    checks = parser.parse_args().check
    h200 = tomllib.loads((CHIPS / "h200.toml").read_text())
    everything = []
    for name, ratio in ratios(h200).items():
        path = CHIPS / f"{name}.toml"
        chip = tomllib.loads(path.read_text())
        text, changed = rewrite(path, chip, derived(h200, chip, ratio, GENERATIONS[name]))
        everything += changed
        if changed and not checks:
            path.write_text(text)
    print("\n".join(everything) or "nothing to change")
    return 1 if checks and everything else 0


if __name__ == "__main__":
    sys.exit(main())
