#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""EcoRNN's language model, an iteration of training: embedding, two LSTM layers, softmax over the 33,278 words of Wikitext-2,
dropout before, between and after the layers, SGD with clipped gradients. A CSV of us, interleaved medians with the least and the
most, of the iteration and of the recurrent layers alone, plain and in a CUDA graph, and of the most MiB, by one kernel for each
operation (without dropout between the layers), torch.nn.LSTM (cuDNN) and onchip.LSTM. With `grid`, of a graph alone, other
hidden sizes and batches, too.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/language_model.py [grid] > FILE.csv"""
import functools
import sys

import onchip
import torch
from training_claims import Unfused
from training_torch import iteration
from whole_networks import PRECISIONS, SCALE, Training, cells, footprint, graph_of, spread_columns, times_us

KINDS = {"unfused": Unfused, "cudnn": torch.nn.LSTM, "onchip": onchip.LSTM}
VOCABULARY, STEPS, LAYERS, DROPOUT, RATE, CLIP = 33278, 35, 2, 0.5, 1.0, 0.2
MODEL = (650, 32)  # hidden, batch
GRID = [(hidden, batch) for hidden in (256, 512, 1024) for batch in (16, 64, 256, 512)]
TIMED = ("iteration", "iteration_graph", "recurrent", "recurrent_graph")


class LanguageModel(torch.nn.Module):
    def __init__(self, kind, vocabulary, hidden, dropout, **options):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, hidden)
        self.lstm = kind(hidden, hidden, LAYERS, dropout=dropout, **options)
        self.output = torch.nn.Linear(hidden, vocabulary)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, words):
        """Of the next words, [steps, batch, vocabulary]."""
        return self.output(self.dropout(self.lstm(self.dropout(self.embedding(words)))[0]))


def loss(network, words):
    """words: [steps + 1, batch]"""
    return torch.nn.functional.cross_entropy(network(words[:-1]).flatten(0, 1).float(), words[1:].flatten())


def measured(kinds, dtype, hidden, batch, is_model):
    """By kind: the most MiB, and times of TIMED; and on what onchip ran."""
    words, found, runs, trainings = torch.randint(VOCABULARY, (STEPS + 1, batch), device="cuda"), {}, [], []

    def training(kind):
        torch.manual_seed(1)
        network = LanguageModel(kind, VOCABULARY, hidden, DROPOUT).to("cuda", dtype)
        optimizer = functools.partial(torch.optim.SGD, lr=RATE / SCALE)
        return functools.partial(Training(network, loss, optimizer, CLIP * SCALE), words)

    for name in kinds:
        run, found[name] = footprint(lambda name=name: training(KINDS[name]))
        trainings.append(run)  # a graph reads its weights
        options = {"num_layers": LAYERS, "dropout": DROPOUT}
        rnn, recurrent = iteration(KINDS[name], dtype, hidden, batch, STEPS, options) if is_model else (None, None)
        runs += [run if is_model else None, graph_of(run), recurrent, is_model and graph_of(recurrent)]
    times = iter(times_us(runs, *((7, 10) if is_model else (3, 4))))
    lstm = run.func.network.lstm
    lstm.check()
    return {name: [most, *(us for _ in TIMED for us in next(times))] for name, most in found.items()}, lstm.explain()


def main():
    columns = [column for name in KINDS for column in
               (f"{name}_peak_mib", *spread_columns(*(f"{name}_{timed}_us" for timed in TIMED)))]  # fmt: skip
    print("device,cell,precision,hidden,batch,steps,layers,vocabulary," + ",".join(columns) + ",path", flush=True)
    cases = [(precision, *MODEL, True) for precision in PRECISIONS]
    cases += [("fp16", *sizes, False) for sizes in GRID] if "grid" in sys.argv[1:] else []
    for precision, hidden, batch, is_model in cases:
        found, path = {}, "out of memory"
        try:
            found, path = measured(KINDS if is_model else ("cudnn", "onchip"), PRECISIONS[precision], hidden, batch, is_model)
        except torch.OutOfMemoryError:
            pass
        values = [value for name in KINDS for value in found.get(name, [None] * (1 + 3 * len(TIMED)))]
        sizes = precision, hidden, batch, STEPS, LAYERS, VOCABULARY
        print(cells(torch.cuda.get_device_name(), "lstm", *sizes, *values, f'"{path}"'), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
