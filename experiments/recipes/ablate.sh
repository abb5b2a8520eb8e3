#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What each part of the simulator is worth: every measured configuration simulated without the part, and the errors, over
# all masks and family by family. No GPU; some minutes for each part and core.
#   experiments/recipes/ablate.sh ONCHIP DATA.csv [OPTION...] > FILE     DATA.csv: measured (experiments/data/h200/validation.csv);
#                                                             options of `onchip validate`, such as --chip h200
#
#   without   the part; "none": all are there. "model": the analytic model instead of the simulator
#   masks     all; uniform: generated without structure; uneven: all others
set -euo pipefail

onchip=$1
data=$2
shift 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A large error is an answer here (status 1), not a failure.
score() { "$onchip" validate "$data" --format csv -o "$out/$1" "${@:2}" || [ $? -eq 1 ]; }

score model "$@"
score none --simulate "$@"
for part in banks issue scoreboard fetch skew exchange; do
  score "$part" --simulate --without "$part" "$@"
done
python3 - "$out" << 'PYTHON'
import csv, math, pathlib, sys

out = pathlib.Path(sys.argv[1])
print("without,masks,points,mape_percent,max_percent,bias")
for name in ["model", "none", "banks", "issue", "scoreboard", "fetch", "skew", "exchange"]:
    rows = list(csv.DictReader((out / name).open(newline="")))
    families = {"all": rows, "uniform": [r for r in rows if r["mask"] == "uniform"],
                "uneven": [r for r in rows if r["mask"] != "uniform"]}
    for family, members in families.items():
        ratios = [float(r["predicted_us"]) / float(r["measured_us"]) for r in members]
        if ratios:
            errors = [100 * abs(ratio - 1) for ratio in ratios]
            bias = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{name},{family},{len(members)},{sum(errors) / len(errors):.2f},{max(errors):.1f},{bias:.3f}")
PYTHON
