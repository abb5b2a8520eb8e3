#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What each optimisation of the method of 2020 gives on this machine's GPU, and libraries beside it: the challenge's networks of 120
# layers, 60,000 synthetic digits. Every plan leaves one thing out of the first, or makes it larger.
#   experiments/recipes/feed_forward/feed_forward_2020.sh ONCHIP [1024 4096 16384] > experiments/data/<gpu>/spdnn_2020.csv
set -euo pipefail

onchip=$1
shift
plans=(
  staged "staged compact_on_host" "staged l1" "staged unblocked" "staged images=1" "staged images=4" "staged images=24"
  "staged fp16" "staged copied" "staged copied_ahead" "staged copied_ahead compact_on_host"
  "staged staged_bytes=49152" "staged block_outputs=512 staged_bytes=49152" "staged block_outputs=1024 staged_bytes=98304"
  "staged block_outputs=1024 staged_bytes=98304 compact_on_host" "staged keep_dead"
)
header=yes
for neurons in "${@:-1024 4096 16384}"; do
  for n in $neurons; do
    for plan in "${plans[@]}"; do
      baselines=
      [ "$plan" = staged ] && baselines=--baselines
      "$onchip" measure --network "spdnn:${n}x120" --plan "$plan" $baselines --repeats 20 --format csv |
        if [ $header ]; then cat; else tail -n +2; fi
      header=
    done
  done
done
