#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feed-forward networks on this machine's GPU, 60,000 synthetic digits. Each set of networks takes minutes, most of it the
# reference on the CPU:
#   blocks        the challenge's, shuffled, with every weight and bias another, and a random one
#   streamed      the challenge's that are too wide for shared memory
#   large         those of them that take a minute each, with fewer repeats
#   moved         with a tenth of the weights moved to random columns
#   unstructured  the challenge's without their blocks, and random patterns
#   dense_layer   random patterns with a quarter of all weights, in whole layers; dense_unstructured: the same without
#   experiments/recipes/feed_forward/feed_forward.sh ONCHIP [SET...] > experiments/data/<gpu>/spdnn.csv, others than blocks to
#   spdnn_families.csv
set -euo pipefail

onchip=$1
shift
other=shuffle=yes,values=0.055..0.07,precision=fp16
moved=shuffle=yes,moved=0.1
random=layers=120,degree=32,values=0.0625,clip=32
dense="random:neurons=256,layers=24,degree=64,values=0.03125,clip=32,bias=-0.3
  random:neurons=512,layers=24,degree=128,values=0.015625,clip=32,bias=-0.3
  random:neurons=1024,layers=24,degree=256,values=0.0078125,clip=32,bias=-0.3"
declare -A networks=(
  [blocks]="spdnn:1024x120 spdnn:1024x480 spdnn:1024x1920 spdnn:4096x120 spdnn:4096x480 spdnn:4096x1920
    random:neurons=1000,layers=8,degree=32,blocks=16,bias=-0.3,clip=32,values=0.0625
    spdnn:1024x120,shuffle=yes spdnn:1024x120,$other,bias=-0.32..-0.28
    spdnn:4096x120,shuffle=yes spdnn:4096x120,$other,bias=-0.37..-0.33"
  [streamed]="spdnn:16384x120 spdnn:16384x480"
  [large]="spdnn:65536x120 spdnn:16384x1920"
  [moved]="spdnn:1024x120,$moved spdnn:4096x120,$moved spdnn:16384x120,$moved"
  [unstructured]="spdnn:1024x120 spdnn:4096x120 spdnn:16384x120
    random:neurons=1024,$random,bias=-0.3 random:neurons=4096,$random,bias=-0.35"
  [dense_layer]=$dense [dense_unstructured]=$dense
)
header=yes
for set in "${@:-blocks}"; do
  plan=() repeats=40
  [[ $set == *unstructured ]] && plan=(--plan unstructured)
  [[ $set == large ]] && repeats=20
  for network in ${networks[$set]}; do
    "$onchip" measure --network "$network" "${plan[@]}" --repeats $repeats --format csv |
      if [ $header ]; then cat; else tail -n +2; fi
    header=
  done
done
