#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feed-forward networks on this machine's GPU, 60,000 synthetic digits: the challenge's, the same with neurons shuffled, with
# every weight and bias another, and a random one. About two minutes.
#   experiments/recipes/feed_forward.sh ONCHIP > experiments/data/<gpu>/spdnn.csv
set -euo pipefail

onchip=$1
other=shuffle=yes,values=0.055..0.07,precision=fp16
networks=(
  spdnn:1024x120 spdnn:1024x480 spdnn:1024x1920 spdnn:4096x120 spdnn:4096x480 spdnn:4096x1920
  random:neurons=1000,layers=8,degree=32,blocks=16,bias=-0.3,clip=32,values=0.0625
  spdnn:1024x120,shuffle=yes "spdnn:1024x120,$other,bias=-0.32..-0.28"
  spdnn:4096x120,shuffle=yes "spdnn:4096x120,$other,bias=-0.37..-0.33"
)
header=yes
for network in "${networks[@]}"; do
  "$onchip" measure --network "$network" --repeats 40 --format csv | if [ $header ]; then cat; else tail -n +2; fi
  header=
done
