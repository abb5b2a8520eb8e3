#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Echo's translation network, an iteration of training: two LSTM layers of 512 units for the source and two for the target, MLP
attention of every target step over every source step, softmax over 8,000 words, about as many as IWSLT15's Vietnamese has, Adam.
`torch`: torch.nn.LSTM (cuDNN) and attention by torch's operations. `gates` and `cells`: onchip.LSTM with that stash and
onchip.MLPAttention. All three compute the loss for a few words at a time, with checkpoint: logits would be most of the memory.

A CSV of ms, plain and in a CUDA graph, interleaved medians with the least and the most, and of samples a second by the faster.
MiB: the most, of all; the most that scores of attention and their gradients take beside q, k and v; what attention as a whole,
and what recurrent layers, keep for backward. `twice` is cells with twice the batch. `largest` is cells with as many samples, in
multiples of 64, as fit in torch's MiB by the footprints of both batches, or fewer, until they do. The path is of these.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/translation.py > FILE.csv"""
import functools
import math

import onchip
import torch
from onchip import attention
from torch.utils.checkpoint import checkpoint
from training_attention import MIB, peak_mib
from whole_networks import PRECISIONS, SCALE, Training, cells, footprint, graph_of, spread_columns, times_us

HIDDEN, LAYERS, BATCH, VOCABULARY, RATE = 512, 2, 128, 8000, 3e-4
CHUNK = 640  # words whose logits are there at a time
CASES = [("fp16", 50), ("fp16", 100), ("bf16", 100)]  # steps of the source and of the target


class EagerAttention(onchip.MLPAttention):
    def forward(self, queries, keys):
        scores = attention.formula(self.query_projection(queries), self.key_projection(keys), self.v)
        weights = scores.softmax(-1)
        return weights @ keys, weights


WAYS = {"torch": (EagerAttention, torch.nn.LSTM, {}), "gates": (onchip.MLPAttention, onchip.LSTM, {"stash": "gates"}),
        "cells": (onchip.MLPAttention, onchip.LSTM, {"stash": "cells"})}  # fmt: skip


class Translation(torch.nn.Module):
    def __init__(self, attends, lstm, options):
        super().__init__()
        self.source_words, self.target_words = (torch.nn.Embedding(VOCABULARY, HIDDEN) for _ in range(2))
        self.encoder, self.decoder = (lstm(HIDDEN, HIDDEN, LAYERS, batch_first=True, **options) for _ in range(2))
        self.attention = attends(HIDDEN, HIDDEN, HIDDEN)
        self.combination = torch.nn.Linear(2 * HIDDEN, HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, source, target):
        """Before the output layer, [batch, steps, HIDDEN]; the target is given, as a whole (teacher forcing)."""
        keys, state = self.encoder(self.source_words(source))
        queries, _ = self.decoder(self.target_words(target), state)
        context, _ = self.attention(queries, keys)
        return self.combination(torch.cat([context, queries], -1)).tanh()


def loss(network, source, target):
    """target: [batch, steps + 1]"""

    def of_chunk(y, words):
        return torch.nn.functional.cross_entropy(network.output(y).float(), words, reduction="sum")

    y, words = network(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten()
    parts = zip(y.split(CHUNK), words.split(CHUNK))
    return sum(checkpoint(of_chunk, *part, use_reentrant=False, preserve_rng_state=False) for part in parts) / len(words)


def training(way, dtype, batch, steps):
    """An iteration to call again and again."""
    torch.manual_seed(1)
    network = Translation(*WAYS[way]).to("cuda", dtype)
    source, target = (torch.randint(VOCABULARY, (batch, count), device="cuda") for count in (steps, steps + 1))
    optimizer = functools.partial(torch.optim.Adam, lr=RATE, eps=1e-8 * SCALE, capturable=True)
    return functools.partial(Training(network, loss, optimizer), source, target)


def kept_mib(module, run):
    """By the module after its forward."""
    found = []
    hooks = [module.register_forward_pre_hook(lambda *_: found.append(-torch.cuda.memory_allocated())),
             module.register_forward_hook(lambda *_: found.append(torch.cuda.memory_allocated()))]  # fmt: skip
    run()
    for hook in hooks:
        hook.remove()
    return sum(found) / MIB


def scores_peak_mib(way, dtype, steps):
    q, k = (torch.randn(BATCH, steps, HIDDEN, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    v, dscores = torch.randn_like(q[0, 0], requires_grad=True), torch.randn(BATCH, steps, steps, device="cuda").to(dtype)
    scores = attention.formula if way == "torch" else onchip.mlp_scores
    return peak_mib(lambda: torch.autograd.grad(scores(q, k, v), (q, k, v), dscores))


def samples_per_s(batch, *medians_us):
    return batch / min(us for us in medians_us if us) * 1e6


def of_batch(dtype, batch, steps, mib=math.inf):
    """Of cells with so many samples, or as many fewer, by 64, as take at most so many MiB: how many, samples a second, the most
    MiB, and on what they ran."""
    run, most = footprint(lambda: training("cells", dtype, batch, steps))
    if most > mib:
        del run
        return of_batch(dtype, min(batch - 64, int(batch * mib / most) // 64 * 64), steps, mib)
    plain, graph = times_us([run, graph_of(run)], 5, 5)
    decoder = run.func.network.decoder
    decoder.check()
    return batch, samples_per_s(batch, plain[0], graph[0]), most, decoder.explain()


def main():
    of_way = [*spread_columns("ms", "graph_ms"), "samples_per_s", "peak_mib", "scores_peak_mib", "attention_mib", "recurrent_mib"]
    columns = [f"{way}_{name}" for way in WAYS for name in of_way]
    columns += ["twice_samples_per_s", "twice_peak_mib", "largest_batch", "largest_samples_per_s", "largest_peak_mib", "path"]
    print("device,cell,precision,hidden,batch,steps,layers,vocabulary," + ",".join(columns), flush=True)
    footprint(lambda: training("torch", torch.float16, 1, 1))  # has workspaces of libraries, which then count for none
    for precision, steps in CASES:
        dtype, memory, runs = PRECISIONS[precision], {}, []
        for way in WAYS:
            run, most = footprint(lambda way=way: training(way, dtype, BATCH, steps))
            network = run.func.network
            kept = [kept_mib(module, run) for module in (network.attention, network.encoder, network.decoder)]
            memory[way] = most, scores_peak_mib(way, dtype, steps), kept[0], kept[1] + kept[2]
            runs += [run, graph_of(run)]
        times, values = iter(times_us(runs, 5, 5)), []
        network.decoder.check()
        for way in WAYS:
            of = plain, graph = next(times), next(times)
            values += [us and us / 1e3 for part in of for us in part] + [samples_per_s(BATCH, plain[0], graph[0]), *memory[way]]
        del run, network, runs
        try:
            _, *twice, path = of_batch(dtype, 2 * BATCH, steps)
            mib, cells_mib = memory["torch"][0], memory["cells"][0]
            samples = BATCH * (1 + (mib - cells_mib) / (twice[1] - cells_mib))
            *largest, path = of_batch(dtype, int(samples) // 64 * 64, steps, mib)
            values += [*twice, *largest]
        except torch.OutOfMemoryError:
            values, path = [*values, *[None] * 5], "out of memory"
        sizes = precision, HIDDEN, BATCH, steps, LAYERS, VOCABULARY
        print(cells(torch.cuda.get_device_name(), "lstm", *sizes, *values, f'"{path}"'), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
