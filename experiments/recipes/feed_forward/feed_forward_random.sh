#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feed-forward networks drawn at random, half of them in blocks, on this machine's GPU: what a prediction that was fitted to
# nothing is compared with. What has to be compiled is compiled first, several at once, which no GPU is needed for.
#   experiments/recipes/feed_forward/feed_forward_random.sh ONCHIP [NETWORKS (100)] [SEED (1)] [compile] > experiments/data/<gpu>/spdnn_random.csv
set -euo pipefail

onchip=$1
draw() {
  awk -v count="$1" -v seed="$2" 'BEGIN {
    srand(seed)
    for (i = 0; i < count; ++i) {
      neurons = int(256 * 16 ^ rand() / 16) * 16
      layers = int(4 * 40 ^ rand())
      degree = int(8 * 6 ^ rand())
      value = 0.5 + rand()  # of 2 / degree, the weights that keep the mean feature
      weights = rand() < 0.5 ? sprintf("%.5f", 2 * value / degree) \
                             : sprintf("uniform:%.5f..%.5f", 1.5 * value / degree, 2.5 * value / degree)
      printf "random:neurons=%d,layers=%d,degree=%d,values=%s,bias=-%.3f,clip=32,seed=%d%s\n", neurons, layers, degree,
             weights, 0.5 * rand(), i + 1, i % 2 ? ",blocks=16,precision=fp16" : ""
    }
  }'
}
mapfile -t networks < <(draw "${2:-100}" "${3:-1}")
printf '%s\0' "${networks[@]}" |
  xargs -0 -P "$(nproc)" -I {} timeout 120 "$onchip" measure --network {} --compile-only > /dev/null 2>&1 || true
[ "${4:-}" = compile ] && exit
header=yes
for network in "${networks[@]}"; do
  rows=$(timeout 60 "$onchip" measure --network "$network" --repeats 15 --format csv) || { echo "$network" >&2; continue; }
  if [ $header ]; then echo "$rows"; else tail -n +2 <<< "$rows"; fi
  header=
done
