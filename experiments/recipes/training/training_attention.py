#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores of MLP attention and all their gradients by torch's operations, plain and compiled, by torch's with checkpoint, and by onchip:
a CSV of ms, interleaved medians, and the most MiB of forward and backward beside q, k and v. Passes are captured in CUDA graphs,
but those of checkpoint; `forward_ms` is with gradients to come.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_attention.py [--compile]"""
import statistics
import sys

import onchip
import torch
from onchip import attention
from torch.utils.checkpoint import checkpoint
from training_torch import captured

SIZES = [  # batch, queries, keys, hidden
    (128, 1, 100, 512),
    (64, 50, 50, 512),
    (128, 100, 100, 512),
    (32, 200, 200, 512),
    (32, 100, 100, 1024),
    (64, 50, 50, 1000),
    (64, 50, 50, 333),
    (16, 30, 400, 256),
]
ROUNDS, MIB = 7, 2**20


def ways(compiles):
    yield "torch eager", attention.formula, True
    yield "torch checkpoint", lambda *given: checkpoint(attention.formula, *given, use_reentrant=False), False
    if compiles:
        yield "torch compile", torch.compile(attention.formula), True
    yield "onchip", onchip.mlp_scores, True


def peak_mib(run):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


def ms(run, repeats=10):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / repeats


def main():
    print("device,dtype,batch,queries,keys,hidden,way,forward_ms,backward_ms,peak_mib")
    for dtype in (torch.float16, torch.bfloat16):
        for batch, queries, keys, hidden in SIZES:
            shapes = (batch, queries, hidden), (batch, keys, hidden), (hidden,)
            given = [torch.randn(*shape, device="cuda").to(dtype).requires_grad_() for shape in shapes]
            dscores, rows = torch.randn(batch, queries, keys, device="cuda").to(dtype), {}
            for name, function, is_captured in ways("--compile" in sys.argv[1:]):

                def forward(function=function):
                    return function(*given)

                def both(function=function):
                    torch.autograd.grad(function(*given), given, dscores)

                both()  # finds the kernels
                peak = peak_mib(both)
                runs = [captured(forward), captured(both)] if is_captured else [forward, both]
                rows[name] = (runs, peak, [])
            for number in range(ROUNDS):
                for runs, _, times in rows.values():
                    of_forward, of_both = (ms(run) for run in runs)
                    if number > 0:
                        times.append((of_forward, of_both - of_forward))
            for name, (_, peak, times) in rows.items():
                of_forward, of_backward = (statistics.median(column) for column in zip(*times))
                print(f"{torch.cuda.get_device_name()},{str(dtype)[6:]},{batch},{queries},{keys},{hidden},{name},"
                      f"{of_forward:.4f},{of_backward:.4f},{peak:.2f}", flush=True)  # fmt: skip
            del rows, runs  # and the graphs' memory


if __name__ == "__main__":
    main()
