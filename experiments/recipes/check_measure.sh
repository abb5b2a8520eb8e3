#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: measures a recurrent network, a feed-forward network and a training step, each alone and beside
# libraries, and a recurrent network's families and layers, as a table, CSV and JSON. Fails on an error, a wrong result, or an
# answer that lacks a column that `onchip measure --columns` names.
#   experiments/recipes/check_measure.sh ONCHIP CHIP     CHIP: the GPU's chip file or its name, such as h200
set -euo pipefail

onchip=$1 chip=(--chip "$2")
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
"$onchip" measure --columns -o "$out/columns.csv"

check() {  # rows of --columns, JSON's list of rows ("" for one), question...
  local rows=$1 list=$2 format
  shift 2
  for format in txt csv json; do
    echo "onchip measure ${chip[*]} $* -o .$format" >&2
    "$onchip" measure "${chip[@]}" "$@" -o "$out/answer.$format"
  done
  [ -s "$out/answer.txt" ]
  python3 - "$out" "$rows" "$list" << 'PYTHON'
import csv, json, pathlib, sys
out, rows, listed = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
columns = [column for column in csv.DictReader((out / "columns.csv").open(newline="")) if column["rows"] == rows]
in_csv = [column["column"] for column in columns if column["in"] != "JSON"]
answer = list(csv.DictReader((out / "answer.csv").open(newline="")))
if not columns or in_csv and list(answer[0]) != in_csv:
    sys.exit(f"CSV of {rows}: {list(answer[0])} instead of {in_csv}")
document = json.loads((out / "answer.json").read_text())
places = [column["json_place"] or column["column"] for column in columns if column["in"] != "CSV"]

def has(row, place):
    for word in place.split("/"):
        row = row.get(word) if isinstance(row, dict) else None
    return row is not None

entries = document[listed] if listed else [document]
print(f"  {rows}: {len(answer)} rows of CSV, {len(entries)} of JSON; in no row of JSON: "
      + (", ".join(place for place in places if not any(has(row, place) for row in entries)) or "none"), file=sys.stderr)
timed = [row for row in entries
         if any(has(row, place + "/median") for place in ("step_us", "wall_ms", "measured/us", "measured/wall_ms"))]
if not timed or not listed and timed[0].get("correct") is not True:
    sys.exit(f"JSON of {rows}: no row has a time, or it is of a wrong result")
PYTHON
}

lstm=(--cell lstm --hidden 512 --batch 16 --density 0.1 --steps 128)
check "recurrent networks" "" "${lstm[@]}" --floor --clocks
check "recurrent networks" "" "${lstm[@]}" --baselines
check "baselines of recurrent networks" baselines "${lstm[@]}" --baselines
check "recurrent networks" families "${lstm[@]}" --plan all
check "whole networks" "" "${lstm[@]}" --layers 2
check "feed-forward networks" "" --network spdnn:1024x120 --images digits:2000
check "feed-forward networks, with --baselines or a staged plan" ways --network spdnn:1024x120 --images digits:2000 \
  --baselines
check "training" baselines --mode train --cell lstm --hidden 512 --batch 64 --steps 64
check "training" baselines --mode train --cell lstm --hidden 512 --batch 64 --steps 64 --baselines
printf 'cell,hidden,batch,density,precision,mask,seed,steps\nrelu,512,4,0.1,fp16,uniform,1,128\n' > "$out/two.csv"
"$onchip" measure "${chip[@]}" --configurations "$out/two.csv" -o "$out/one_plan.csv"
"$onchip" measure "${chip[@]}" --configurations "$out/two.csv" --plan all -o "$out/families.csv"
"$onchip" validate "${chip[@]}" "$out/one_plan.csv" "$out/families.csv" > /dev/null || [ $? -eq 1 ]  # out of tolerance is no error here
echo "all questions were answered" >&2
