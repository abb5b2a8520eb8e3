#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training steps on this machine's GPU, in one run: training_lstm.csv, every plan of training_configurations.csv, to which
# the price was fitted; training_grid.csv, an LSTM of every hidden size and batch of the grid, and a GRU of six, beside cuDNN (every
# algorithm, padded sizes, plain and as a graph) and cuBLAS; and sparse LSTMs, training_sparse.csv and, held out,
# training_sparse_drawn.csv. Before it, with a third word, only compiles.
#   experiments/recipes/training/training.sh ONCHIP FOLDER [compile]     e.g. experiments/data/<gpu>; 8 minutes of a GPU
# experiments/recipes/training/training_grid.py FOLDER/training_grid.csv says what came out.
set -euo pipefail

onchip=$1 folder=$2 only_compiles=${3:-}
data=$(dirname "$0")/../../data
configurations=$data/training_configurations.csv sparse=$data/sparse_training
grid=$(mktemp --suffix=.csv)
trap 'rm -f "$grid"' EXIT
{
  echo cell,hidden,batch,precision
  for precision in fp16 bf16; do
    for hidden in 256 512 1024 1536 2048; do
      for batch in 16 64 128 256 512; do
        echo "lstm,$hidden,$batch,$precision"
      done
    done
  done
  for hidden in 512 1024 2048; do
    for batch in 16 128; do
      echo "gru,$hidden,$batch,fp16"
    done
  done
} > "$grid"
measure() { "$onchip" measure --mode train --format csv --configurations "$@"; }
if [ "$only_compiles" ]; then
  measure "$configurations" --compile-only > /dev/null
  measure "$grid" --compile-only > /dev/null
  measure "${sparse}_configurations.csv" --compile-only > /dev/null
  measure "${sparse}_drawn_configurations.csv" --compile-only > /dev/null
  exit
fi
measure "$configurations" --repeats 7 -o "$folder/training_lstm.csv"
measure "$grid" --baselines --repeats 5 -o "$folder/training_grid.csv"
measure "${sparse}_configurations.csv" --repeats 7 -o "$folder/training_sparse.csv"
measure "${sparse}_drawn_configurations.csv" --repeats 7 -o "$folder/training_sparse_drawn.csv"
