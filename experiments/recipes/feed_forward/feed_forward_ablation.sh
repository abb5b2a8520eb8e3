#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What each choice of a plan of blocks gives on this machine's GPU: the challenge's networks of 120 layers, 60,000 synthetic
# digits, by the plan that the planner chooses and by plans that leave one thing out.
#   experiments/recipes/feed_forward/feed_forward_ablation.sh ONCHIP > experiments/data/<gpu>/spdnn_ablation.csv
set -euo pipefail

onchip=$1
launches() {  # first last tile: each layer a launch
  seq -f "%.0f:$3" -s , "$1" "$2"
}
declare -A plans=(
  # as chosen before there was a search; one launch without dropping dead images; a launch for each layer; two words
  [1024]="blocks
    blocks warps=16 phases=3:4x1,5:4x1,8:4x1,11:2x1,120:2x1 lower=2x1 wide=2x2
    blocks warps=16 phases=120:4x1 lower=2x1 wide=2x2
    blocks warps=16 phases=$(launches 1 12 4x1),$(launches 13 120 2x1) lower=2x1 wide=2x2
    blocks warps=16 phases=3:2x2,5:2x2,8:2x2,11:2x2,120:2x2 lower=2x2 wide=2x2
    unstructured"
  [4096]="blocks
    blocks warps=16 phases=3:3x1!,5:3x1!,8:3x1!,11:2x1!,120:2x1! lower=2x1! wide=1x2!
    blocks warps=16 phases=120:3x1! lower=2x1! wide=1x2!
    blocks warps=16 phases=$(launches 1 12 3x1!),$(launches 13 120 2x1!) lower=2x1! wide=1x2!
    blocks warps=16 phases=3:1x2!,5:1x2!,8:1x2!,11:1x2!,120:1x2! lower=1x2! wide=1x2!
    unstructured"
)
header=yes
for neurons in 1024 4096; do
  while read -r plan; do
    "$onchip" measure --network "spdnn:${neurons}x120" --plan "$plan" --repeats 20 --format csv |
      if [ $header ]; then cat; else tail -n +2; fi
    header=
  done <<< "${plans[$neurons]}"
done
