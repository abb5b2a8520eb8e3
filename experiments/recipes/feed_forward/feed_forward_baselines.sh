#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ours, the method of 2020, cuSPARSE and cuBLAS in one run on this machine's GPU: the challenge's networks of 120 layers, 60,000
# synthetic digits. A way that takes long has one sample, of its first run; what would take longer than ten seconds is not run.
#   experiments/recipes/feed_forward/feed_forward_baselines.sh ONCHIP [1024 4096 16384] > experiments/data/<gpu>/spdnn_baselines.csv
set -euo pipefail

onchip=$1
shift
header=yes
for neurons in ${@:-1024 4096 16384}; do
  "$onchip" measure --network "spdnn:${neurons}x120" --baselines --repeats 20 --format csv |
    if [ $header ]; then cat; else tail -n +2; fi
  header=
done
