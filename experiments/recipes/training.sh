#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training steps by cuDNN and cuBLAS on this machine's GPU: forward and all gradients, every algorithm, padded, plain and
# as a graph. A row for each that ran; `best` marks the fastest of its library. What does not fit
# into the time is left out, with a line on stderr: run it again for the rest.
#   experiments/recipes/training.sh ONCHIP FILE.csv [SECONDS]     e.g. experiments/data/<gpu>/training.csv; 340 s
set -euo pipefail

onchip=$1 file=$2 limit=${3:-340} left_out=
point() {  # cell hidden batch precision [option...]
  local -a options=(--cell "$1" --hidden "$2" --batch "$3" --precision "$4" "${@:5}")
  local key="# ${options[*]}"
  grep -qxF -- "$key" "$file.done" 2> /dev/null && return
  if ((SECONDS > limit)); then
    echo "left out: ${options[*]}" >&2
    left_out=yes
    return
  fi
  local rows
  # Where nothing runs there is a row of refusals (status 1).
  rows=$("$onchip" measure --mode train --baselines --repeats 5 --format csv "${options[@]}") || [ $? -eq 1 ]
  if [ -s "$file" ]; then tail -n +2 <<< "$rows"; else cat <<< "$rows"; fi >> "$file"
  echo "$key" >> "$file.done"
}

# What was measured of a prototype first, then the rest of the grid, then other cells, layers and types.
for size in "256 16" "256 64" "512 16" "512 64" "512 256" "512 512" "1024 16" "1024 64" "1024 128" "1536 16" "1536 64" \
  "2048 16" "2048 64"; do
  for precision in fp16 bf16; do
    point lstm $size $precision
  done
done
for size in "512 32 --layers 4" "1024 32 --layers 4" "1024 32 --bidirectional"; do
  read -r hidden batch options <<< "$size"
  point lstm "$hidden" "$batch" fp16 $options
done
point gru 800 32 fp16 --layers 5 --bidirectional --steps 300
point lstm 650 32 fp16 --layers 2 --steps 35
for hidden in 512 1024 2048; do
  for batch in 16 128; do
    point gru "$hidden" "$batch" fp16
  done
done
for hidden in 256 512 1024 1536 2048; do
  for batch in 16 64 128 256 512; do
    for precision in fp16 bf16; do
      point lstm "$hidden" "$batch" $precision
    done
  done
done
[ $left_out ] || rm -f "$file.done"
