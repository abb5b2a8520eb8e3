#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Requests to stacks that stay on the chip, on this machine's GPU, a million each beside the empty mailbox: streams.csv.
# With a third word, kills hosts in the middle of their requests so many times, each time asking again behind it.
#   experiments/recipes/stream/streams.sh ONCHIP FOLDER [KILLS]     e.g. experiments/data/<gpu>; a minute of a GPU
set -euo pipefail

onchip=$1 folder=$2 kills=${3:-0}
row() { "$onchip" measure --stream --cell "$1" --layers "$2" --hidden "$3" "${@:4}" --format csv; }
{
  row lstm 2 128
  for size in "lstm 3 256" "lstm 3 480" "lstm 6 320" "lstm 1 128" "lstm 4 128" "lstm 1 256" "lstm 2 256" "lstm 1 512" "gru 3 256"; do
    row $size | tail -n 1
  done
  row lstm 2 128 --batch 8 | tail -n 1
  row lstm 2 128 --streams 4 | tail -n 1
} > "$folder/streams.csv.part"
mv "$folder/streams.csv.part" "$folder/streams.csv"

for ((kill = 0; kill < kills; ++kill)); do
  row lstm 3 256 --requests 100000000 > /dev/null 2>&1 &
  sleep "0.$((4 + RANDOM % 5))"
  kill -KILL $!
  wait $! 2> /dev/null || true
done
if ((kills > 0)); then
  row lstm 3 256 --requests 1000 | tail -n 1
fi
