#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feed-forward networks on one GPU and on two of this machine, 60,000 synthetic digits: as they come, and with those that survive
# first, dealt and in contiguous halves. About 100 seconds, most of it the reference on the CPU.
#   experiments/recipes/feed_forward/feed_forward_gpus.sh ONCHIP > experiments/data/<gpu>/spdnn_gpus.csv
set -euo pipefail

onchip=$1
header=yes
measure() {
  "$onchip" measure --network "spdnn:$1" "${@:2}" --repeats 20 --format csv | if [ $header ]; then cat; else tail -n +2; fi
  header=
}
for network in 1024x1920 16384x480; do
  measure $network --gpus 1
  measure $network --gpus 2
  measure $network --gpus 2 --image-order survivors-first
  measure $network --gpus 2 --image-order survivors-first --split contiguous
done
for network in 1024x120 16384x120; do
  measure $network --gpus 1
  measure $network --gpus 2
done
