#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest batch and the longest sequence that train in 24 GiB of device memory beside x and the weights, of torch.nn's and of
onchip's layers with each stash. onchip's are predicted and then run; torch's are searched by running. A CSV of MiB.
With --long: an LSTM of 512 units, 4 samples and 262,144 steps trains, and its gradients are compared with double precision, over
chunks of steps. A CSV of relative errors.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_largest.py [--long]"""
import sys
import time

import onchip
import torch
from onchip import api, recurrent_layer
from training_memory import MIB, bytes_at_most

BUDGET = 24 * 2**30
CASES = [("LSTM", 1024, 2), ("GRU", 1024, 2)]  # cell, hidden, layers
BATCH, STEPS = 128, 512  # where the other one is searched
LONG_STEPS, LONG_BATCH, LONG_HIDDEN, CHUNK = 1 << 18, 4, 512, 1 << 13


def largest(needs, step, most):
    """The largest multiple of `step`, at most `most`, of which `needs` gives no more bytes than the budget."""
    low, high = 1, most // step + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needs(middle * step) <= BUDGET else (low, middle)
    return low * step


def measured(rnn, hidden, batch, steps):
    """The most bytes of an iteration; more than there are, where they run out."""
    try:
        x = torch.randn(steps, batch, hidden, device="cuda", dtype=torch.float16, requires_grad=True)
        return bytes_at_most(lambda x: rnn(x)[0], x, rnn)[1]
    except torch.cuda.OutOfMemoryError:
        return sys.maxsize
    finally:
        torch.cuda.empty_cache()


def sizes(what, size):
    return (size, STEPS) if what == "batch" else (BATCH, size)


def in_memory():
    print("device,cell,hidden,layers,way,what,batch,steps,peak_mib,predicted_peak_mib,path")
    for cell, hidden, layers in CASES:
        for what, step, most in (("batch", 8, 4096), ("length", 64, 65_535)):
            torchs = getattr(torch.nn, cell)(hidden, hidden, layers).to("cuda", torch.float16)
            found = largest(lambda size: measured(torchs, hidden, *sizes(what, size)), step, most)
            rows = [("torch", torchs, found, "")]
            for stash in api.STASHES:
                ours = getattr(onchip, cell)(hidden, hidden, layers, stash=stash).to("cuda", torch.float16)

                def needs(size, stash=stash):
                    of = (hidden, hidden, *sizes(what, size), 1, 0, stash)
                    try:
                        return recurrent_layer.memory(layers, cell.lower(), torch.float16, *of)
                    except api.DoesNotFit:
                        return sys.maxsize

                found = largest(needs, step, most)
                rows.append((f"onchip {stash}", ours, found, f"{needs(found) / MIB:.1f}"))
            for way, rnn, found, predicted in rows:
                batch, steps = sizes(what, found)
                peak = measured(rnn, hidden, batch, steps) / MIB
                path = "" if way == "torch" else rnn.explain()
                print(f"{torch.cuda.get_device_name()},{cell.lower()},{hidden},{layers},{way},{what},{batch},{steps},{peak:.1f},"
                      f'{predicted},"{path}"', flush=True)  # fmt: skip


def gradients(rnn, x, dy):
    """Of x and of the parameters, chunk by chunk from the last, in the type of rnn; the sums of the weights' in double precision."""
    states, state = [], None
    with torch.no_grad():
        for chunk in x.split(CHUNK):
            states.append(state)
            state = rnn(chunk.to(rnn.weight_hh_l0.dtype), state)[1]
    of_x, of_weights, of_state = [], None, None
    for chunk, dy_chunk, state in reversed(list(zip(x.split(CHUNK), dy.split(CHUNK), states))):
        given = [chunk.to(rnn.weight_hh_l0.dtype).requires_grad_(), *rnn.parameters()]
        begin = [] if state is None else [tensor.detach().requires_grad_() for tensor in state]
        y, end = rnn(given[0], tuple(begin) or None)
        seeds = [dy_chunk.to(y.dtype), *(of_state or [])]
        found = torch.autograd.grad([y, *end][: len(seeds)], given + begin, seeds)
        of_x.append(found[0])
        sums = [gradient.double() for gradient in found[1 : len(given)]]
        of_weights = sums if of_weights is None else [a + b for a, b in zip(of_weights, sums)]
        of_state = found[len(given) :]
    return torch.cat(of_x[::-1]), *of_weights


def long():
    lstm = onchip.LSTM(LONG_HIDDEN, LONG_HIDDEN, stash="cells").to("cuda", torch.float16)
    exact = torch.nn.LSTM(LONG_HIDDEN, LONG_HIDDEN).to("cuda", torch.float64)
    exact.load_state_dict(lstm.state_dict())
    x = torch.randn(LONG_STEPS, LONG_BATCH, LONG_HIDDEN, device="cuda", dtype=torch.float16, requires_grad=True)
    dy = 0.01 * torch.randn_like(x)
    seconds = []
    for _ in range(2):
        torch.cuda.synchronize()
        begin = time.monotonic()
        found = torch.autograd.grad(lstm(x)[0], [x, *lstm.parameters()], dy)
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
    expected = gradients(exact, x.detach(), dy)
    print("device,steps,batch,hidden,seconds,gradient,relative_error,torch_fp16_relative_error")
    torchs = torch.nn.LSTM(LONG_HIDDEN, LONG_HIDDEN).to("cuda", torch.float16)
    torchs.load_state_dict(lstm.state_dict())
    by_torch = gradients(torchs, x.detach(), dy)  # cuDNN takes at most 65,535 steps: in chunks, too
    names = ["x", *(name for name, _ in lstm.named_parameters())]
    for name, ours, theirs, right in zip(names, found, by_torch, expected):
        errors = [((of.double() - right).norm() / right.norm()).item() for of in (ours, theirs)]
        print(f"{torch.cuda.get_device_name()},{LONG_STEPS},{LONG_BATCH},{LONG_HIDDEN},{seconds[-1]:.3f},{name},"
              f"{errors[0]:.2e},{errors[1]:.2e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    long() if "--long" in sys.argv[1:] else in_memory()
