#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest batch and the longest sequence that train in so many GiB of device memory beside x and the weights, by torch.nn and by
onchip with each stash and with a budget. onchip's are predicted, and then run; torch's are searched by running. Each of onchip's is
also run at 1.03 times torch's largest. A CSV: the MiB that torch counts and those that are predicted, and ms of an iteration.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_largest.py -o FILE.csv [--gib 24]"""
import argparse
import gc
import math
import sys

import onchip
import torch
from onchip import api, recurrent_layer
from training_memory import MIB, bytes_at_most, ms

CASES = [("LSTM", 1024, 2), ("GRU", 1024, 2)]  # cell, hidden, layers
BATCH, STEPS = 128, 512  # where the other one is searched
SEARCHED = (("batch", 8, 16_384), ("steps", 64, 1 << 17))  # what, in multiples of, at most


def largest(needs, step, most, budget):
    """The largest multiple of `step`, at most `most`, of which `needs` gives no more bytes than the budget."""
    low, high = 0, most // step + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needs(middle * step) <= budget else (low, middle)
    return low * step


def measured(rnn, hidden, batch, steps):
    """The most bytes of an iteration and its ms; more than there are, where they run out."""
    try:
        x = torch.randn(steps, batch, hidden, device="cuda", dtype=torch.float16, requires_grad=True)
        found = bytes_at_most(lambda x: rnn(x)[0], x, rnn)[1]
        return found, ms(lambda x: rnn(x)[0], x, rnn, torch.randn_like(x), 1)
    except (torch.cuda.OutOfMemoryError, RuntimeError) as problem:  # cuDNN has no plan for what it cannot count
        print(f"{type(rnn).__name__} of {steps} steps of {batch} samples: {problem}", file=sys.stderr)
        return sys.maxsize, math.nan
    finally:
        rnn.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()


def predicted(cell, hidden, layers, batch, steps, stash, budget):
    """The most bytes, by a stash or, where it is None, by what is chosen for the budget."""
    sizes = (hidden, hidden, batch, steps, 1, 0)
    try:
        if stash is None:
            return recurrent_layer.within(layers, budget, True, cell.lower(), torch.float16, *sizes)[1]
        return recurrent_layer.memory(layers, cell.lower(), torch.float16, *sizes, stash)
    except api.DoesNotFit as problem:
        print(f"{cell} of {steps} steps of {batch} samples: {problem}", file=sys.stderr)
        return sys.maxsize


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="file", default="/dev/stdout")
    parser.add_argument("--gib", type=float, default=24)
    options = parser.parse_args()
    budget = int(options.gib * 2**30)
    torch.zeros(1, device="cuda")  # plans are for the device that torch has chosen
    with open(options.file, "w", encoding="utf-8") as file:
        print("device,budget_gib,cell,hidden,layers,way,what,of_torch,batch,steps,peak_mib,predicted_peak_mib,ms,path", file=file)
        for cell, hidden, layers in CASES:
            for what, step, most in SEARCHED:

                def sizes(size, what=what):
                    return (size, STEPS) if what == "batch" else (BATCH, size)

                def write(way, rnn, size, of_torch, bytes_predicted):
                    batch, steps = sizes(size)
                    peak, took = measured(rnn, hidden, batch, steps)
                    path = "" if way == "torch" else rnn.explain()
                    expected = "" if bytes_predicted is None else f"{bytes_predicted / MIB:.1f}"
                    print(f"{torch.cuda.get_device_name()},{options.gib:g},{cell.lower()},{hidden},{layers},{way},{what},{of_torch:.3f},"
                          f'{batch},{steps},{peak / MIB:.1f},{expected},{took:.2f},"{path}"', file=file, flush=True)  # fmt: skip

                torchs = getattr(torch.nn, cell)(hidden, hidden, layers).to("cuda", torch.float16)
                by_torch = largest(lambda size: measured(torchs, hidden, *sizes(size))[0], step, most, budget)
                write("torch", torchs, by_torch, 1, None)
                for stash in (*api.STASHES, None):
                    kept = {"memory": budget} if stash is None else {"stash": stash}
                    ours = getattr(onchip, cell)(hidden, hidden, layers, **kept).to("cuda", torch.float16)
                    way = "onchip " + (stash or f"{options.gib:g} GiB")

                    def needs(size, stash=stash):
                        return predicted(cell, hidden, layers, *sizes(size), stash, budget)

                    found = largest(needs, step, most, budget)
                    for size in (found, round(1.03 * by_torch)):
                        write(way, ours, size, size / by_torch, needs(size))


if __name__ == "__main__":
    main()
