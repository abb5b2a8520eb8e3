#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ours, the method of 2020, cuSPARSE and cuBLAS in one run on this machine's GPU, 60,000 synthetic digits: the challenge's
# networks of 120 layers, and random patterns with a quarter of all weights. A way that takes long has one sample, of its first run;
# what would take longer than ten seconds is not run.
#   experiments/recipes/feed_forward/feed_forward_baselines.sh ONCHIP [NETWORK...] > experiments/data/<gpu>/spdnn_baselines.csv
set -euo pipefail

onchip=$1
shift
quarter=layers=24,clip=32,bias=-0.3
[ $# -gt 0 ] || set -- spdnn:1024x120 spdnn:4096x120 spdnn:16384x120 \
  random:neurons=256,degree=64,values=0.03125,$quarter random:neurons=512,degree=128,values=0.015625,$quarter
header=yes
for network in "$@"; do
  "$onchip" measure --network "$network" --baselines --repeats 20 --format csv |
    if [ $header ]; then cat; else tail -n +2; fi
  header=
done
