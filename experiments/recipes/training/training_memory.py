#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and time of an iteration, forward and backward, by what is kept between the passes: torch.nn.LSTM and GRU, the same
with torch.utils.checkpoint over chunks of steps, onchip's with each stash, and forward without gradients. A CSV: MiB that
torch counts beside x and the weights, those that onchip predicts, and ms, interleaved medians with the least and the most.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_memory.py"""
import statistics
import sys

import onchip
import torch
from onchip import recurrent_layer
from torch.utils.checkpoint import checkpoint

CASES = [  # cell, hidden, batch, steps, layers
    ("LSTM", 1024, 128, 512, 2),
    ("GRU", 1024, 128, 512, 2),
    ("LSTM", 512, 128, 512, 1),
]
ROUNDS, CHUNKS = 5, (4, 16)
MIB = 2**20


def in_chunks(rnn, count):
    """What torch has for less memory: of each chunk of steps only h and c are kept, and forward runs again."""

    def run(x):
        states, outputs = None, []
        for chunk in x.chunk(count):
            given = [] if states is None else [states]
            y, states = checkpoint(rnn, chunk, *given, use_reentrant=False)
            outputs.append(y)
        return torch.cat(outputs)

    return run


def ways(cell, hidden, layers):
    """By name: what computes y of x, its parameters, and the stash and of how many of the first layers it is the cells, if it is
    onchip's."""
    torchs = getattr(torch.nn, cell)(hidden, hidden, layers).to("cuda", torch.float16)
    yield "torch", lambda x: torchs(x)[0], torchs, None
    for count in CHUNKS:
        yield f"torch checkpoint {count}", in_chunks(torchs, count), torchs, None
    mixes = [("gates", of_cells) for of_cells in range(1, layers)]
    for stash, of_cells in [("gates", 0), *mixes, ("cells", 0), ("replay", 0)]:
        kept = ["cells"] * of_cells + ["gates"] * (layers - of_cells) if of_cells else stash
        ours = getattr(onchip, cell)(hidden, hidden, layers, stash=kept).to("cuda", torch.float16)
        ours.load_state_dict(torchs.state_dict())
        name = f"onchip {of_cells} of cells" if of_cells else f"onchip {stash}"
        yield name, lambda x, ours=ours: ours(x)[0], ours, (stash, of_cells)
    yield "torch no_grad", lambda x: torchs(x)[0], None, None
    yield "onchip no_grad", lambda x: ours(x)[0], None, None


def bytes_at_most(run, x, rnn):
    """Kept after forward, and at most, beside what was there."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = run(x)
    kept = torch.cuda.memory_allocated() - before
    if y.requires_grad:
        (y * 1).sum().backward()  # as of a loss: y stays, its gradient goes once it is used
        x.grad = None
        rnn.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return kept, torch.cuda.max_memory_allocated() - before


def ms(run, x, rnn, dy, repeats):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        y = run(x)
        if rnn is not None:
            torch.autograd.grad(y, [x, *rnn.parameters()], dy)
        del y
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / repeats


def main():
    print("device,cell,hidden,batch,steps,layers,way,kept_mib,peak_mib,predicted_peak_mib,ms,low_ms,high_ms,path")
    for cell, hidden, batch, steps, layers in CASES:
        x = torch.randn(steps, batch, hidden, device="cuda", dtype=torch.float16, requires_grad=True)
        dy, found = torch.randn_like(x), {}
        all_ways = list(ways(cell, hidden, layers))
        for name, run, rnn, stash in all_ways:
            with torch.set_grad_enabled(rnn is not None):
                ms(run, x, rnn, dy, 1)  # warms up, and finds the kernels
                kept, peak = bytes_at_most(run, x, rnn)
            predicted = ""
            if stash:
                sizes = hidden, hidden, batch, steps, 1, 0, stash[0], 0, stash[1]
                predicted = f"{recurrent_layer.memory(layers, cell.lower(), torch.float16, *sizes) / MIB:.2f}"
            found[name] = [f"{kept / MIB:.2f}", f"{peak / MIB:.2f}", predicted]
        times = {name: [] for name in found}
        for _ in range(ROUNDS):
            for name, run, rnn, _ in all_ways:
                with torch.set_grad_enabled(rnn is not None):
                    times[name].append(ms(run, x, rnn, dy, 3))
        for name, _, rnn, stash in all_ways:
            of = times[name]
            path = rnn.explain() if stash else ""
            print(f"{torch.cuda.get_device_name()},{cell.lower()},{hidden},{batch},{steps},{layers},{name},{','.join(found[name])},"
                  f'{statistics.median(of):.4f},{min(of):.4f},{max(of):.4f},"{path}"', flush=True)  # fmt: skip
        print(f"{cell} {hidden} {batch} {steps} {layers}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
