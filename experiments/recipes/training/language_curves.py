#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perplexity on held-out text while the network of language_model.py trains in fp16 and bf16: torch.nn.LSTM (cuDNN) and
onchip.LSTM with each stash, from equal weights and on equal text, by three seeds; without dropout, of which cuDNN draws other
masks, and with Adam. A CSV.

The text is drawn. A word is of one of 10 classes. Its class depends on the classes of the two words before it, by a random table.
Within a class of 100 words the n-th is drawn in proportion to 1/n. `best_perplexity` is that of the table itself on the same text.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/language_curves.py > FILE.csv"""
import functools

import numpy
import onchip
import torch
from language_model import LAYERS, MODEL, STEPS, LanguageModel, loss
from whole_networks import PRECISIONS, SCALE, Training, cells

CLASSES, WORDS = 10, 100  # of a class
ITERATIONS, EVERY, HELD_OUT, SEEDS = 500, 50, 16, (1, 2, 3)
HIDDEN, BATCH = MODEL
RATE, CLIP = 2e-3, 1.0
WAYS = {"nn.LSTM": (torch.nn.LSTM, {}), **{f"onchip {stash}": (onchip.LSTM, {"stash": stash}) for stash in ("gates", "cells")}}

_draw = numpy.random.default_rng(0)
OF_CLASSES = _draw.dirichlet([0.2] * CLASSES, (CLASSES, CLASSES))  # of the next class, by the two before it
OF_WORDS = 1 / numpy.arange(1, WORDS + 1) / (1 / numpy.arange(1, WORDS + 1)).sum()


def text(batches, seed):
    """Words: [batches, STEPS + 1, BATCH]."""
    draw = numpy.random.default_rng(seed)
    count = batches * BATCH
    classes = [*draw.integers(CLASSES, size=(2, count))]
    for _ in range(STEPS + 20):  # the first 20 do not count
        of_next = OF_CLASSES[classes[-2], classes[-1]].cumsum(1)
        classes.append((draw.random((count, 1)) > of_next[:, :-1]).sum(1))
    in_class = draw.choice(WORDS, size=(STEPS + 1, count), p=OF_WORDS)
    words = numpy.stack(classes[-STEPS - 1 :]) * WORDS + in_class
    return torch.from_numpy(words.reshape(STEPS + 1, batches, BATCH).swapaxes(0, 1).copy())


def best_perplexity(words):
    """Of words that have two before them."""
    classes, in_class = words.numpy() // WORDS, words.numpy() % WORDS
    of = OF_CLASSES[classes[:, :-2], classes[:, 1:-1], classes[:, 2:]] * OF_WORDS[in_class[:, 2:]]
    return float(numpy.exp(-numpy.log(of).mean()))


def perplexity(network, held_out):
    """Of the same words."""
    network.eval()
    with torch.no_grad():
        found = [torch.nn.functional.cross_entropy(network(words[:-1])[1:].flatten(0, 1).float(), words[2:].flatten())
                 for words in held_out]  # fmt: skip
    network.train()
    return torch.stack(found).mean().exp().item()


def main():
    held_out = text(HELD_OUT, 0)
    best, held_out = best_perplexity(held_out), held_out.cuda()
    print("device,cell,precision,hidden,batch,steps,layers,way,seed,iteration,perplexity,best_perplexity,path", flush=True)
    for precision, dtype in PRECISIONS.items():
        for seed in SEEDS:
            words = text(ITERATIONS, seed).cuda()
            for way, (kind, options) in WAYS.items():
                torch.manual_seed(seed)
                network = LanguageModel(kind, CLASSES * WORDS, HIDDEN, 0.0, **options).to("cuda", dtype)
                optimizer = functools.partial(torch.optim.Adam, lr=RATE, eps=1e-8 * SCALE)
                train = Training(network, loss, optimizer, CLIP * SCALE)
                for iteration in range(ITERATIONS):
                    train(words[iteration])
                    if (iteration + 1) % EVERY:
                        continue
                    path = network.lstm.explain() if options else ""
                    row = [torch.cuda.get_device_name(), "lstm", precision, HIDDEN, BATCH, STEPS, LAYERS, way, seed, iteration + 1,
                           perplexity(network, held_out), best, f'"{path}"']  # fmt: skip
                    print(cells(*row), flush=True)


if __name__ == "__main__":
    main()
