#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes docs/equations.md: the cost terms as `onchip chips --cost-terms` has them, and what each is worth on the drawn
# networks (`onchip validate --without all`). No GPU; seconds.
#   experiments/recipes/equations.sh ONCHIP > docs/equations.md     ONCHIP: the built command
set -euo pipefail

onchip=$1
data=$(dirname "$0")/../data/h100_sxm
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

"$onchip" chips --cost-terms --format csv -o "$out/terms.csv"
"$onchip" chips --register-costs --format csv -o "$out/registers.csv"
for set in drawn drawn_again; do
  # A large error is an answer here (status 1), not a failure.
  "$onchip" validate "$data/$set.csv" --without all --format csv -o "$out/$set.csv" || [ $? -eq 1 ]
done
python3 - "$out" << 'PYTHON'
import csv, pathlib, sys

out = pathlib.Path(sys.argv[1])
read = lambda name: list(csv.DictReader((out / f"{name}.csv").open(newline="")))
worth = {name: {row["term"]: row for row in read(name)} for name in ("drawn", "drawn_again")}

def cell(name, term):
    row = worth[name][term["term"]]
    if term["value"] == term["neutral"]:
        return "-"  # there is no pricing without it
    return f"{float(row['difference_percent']):+.1f} ({row['points']})" if row["points"] != "0" else "(0)"

print("""# Equations

<!-- Generated: experiments/recipes/equations.sh build/onchip > docs/equations.md -->

The formulas stand at the top of `model/sparse/price.hpp`, `model/dense/price.hpp`, `model/library/price.hpp`,
`model/training/recurrence_price.hpp`, `model/exchange/exchange_time.hpp`,
`model/feed_forward/plan/blocks_price.hpp`, `model/feed_forward/plan/off_chip_price.hpp` and
`model/feed_forward/staged/price.hpp`. They multiply two kinds of numbers.

- **Numbers of the hardware** stand in the chip files (`model/chips/*.toml`): `onchip chips NAME` lists each with its unit,
  interval and source, and `--set KEY=QUANTITY` changes one.
- **Cost terms**, below, stand in `model/chip/cost_terms.inc` and are the same for all chips: `onchip chips --cost-terms`. "Scales
  with" is the chip number that carries a term to another chip. `--set cost.TERM=VALUE` changes one.

"Worth" is how many points of per cent the mean error of the plans that use a term would be larger with the term at its
neutral value (`onchip validate FILE --without TERM`), and in parentheses of how many plans. The other terms stay as they are,
so a term that was fitted together with others looks worth more than it would be after a new fit; below 0, the set would do
better without it. `drawn.csv` is the set by which it was chosen which terms there are, `drawn_again.csv` is held out; both are of
the H100. A term that is not worth 0.3 on `drawn.csv` and on what it was fitted to has to go. Terms that count instructions
have no neutral value: "-".

"Fitted to" names one file, and "points" how many rows the fit had. Some fits had further files, and rows of removed techniques
have gone since: [training-the-model](notebook/training-the-model.md). "Layouts" are packed weights, counted without a GPU;
"machine code" is what the compiler made of plans, "programs" are lists of launches. "Probes" are launches timed for the notebook's page on
[prices of feed-forward networks](notebook/feed-forward-prices.md), of which no file is kept (0 points: how many is not known);
"published logs" are of the champion of 2020. "Sequences" are `sequence_us` of the kernels' rows of `h200`, "simulations" those of
`tests/sim/other_banks_test.cpp`. Nothing is fitted to measured inferences of feed-forward networks.""")
group = None
for term in read("terms"):
    if term["group"] != group:
        group = term["group"]
        print(f"\n## {group[0].upper()}{group[1:]}\n")
        print("| term | value | unit | scales with | meaning | fitted to | points | worth (drawn.csv) | worth (drawn_again.csv) |")
        print("|---|---|---|---|---|---|---|---|---|")
    cells = [f"`{term['term']}`", term["value"], term["unit"], term["scales_with"], term["meaning"], term["fitted_to"],
             term["points"], cell("drawn", term), cell("drawn_again", term)]
    print("| " + " | ".join(cells) + " |")
print("""
## Registers

Where no compiler is asked, these stand in for it: registers of a thread of sparse plans beside its weights, by architecture
(`model/sparse/registers.hpp`, `onchip chips --register-costs`). They are no cost terms, for no price multiplies with them. "480 shapes"
are random shapes of sparse plans: the most weights that NVRTC 13.0 compiles without a spill
([registers](notebook/registers.md)).
""")
costs = read("registers")
print("| " + " | ".join(costs[0]) + " |\n" + "|---" * len(costs[0]) + "|")
for cost in costs:
    print("| " + " | ".join([f"`{cost['cost']}`", *list(cost.values())[1:]]) + " |")
PYTHON
