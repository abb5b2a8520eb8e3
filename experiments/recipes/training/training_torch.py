#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM and GRU and onchip's, forward and backward, plain and in a CUDA graph: a CSV of us per step, interleaved
medians. PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_torch.py [fp16|bf16]"""
import statistics
import sys
import time

import onchip
import torch

SIZES = [(256, 16), (256, 64), (512, 16), (512, 64), (512, 256), (512, 512), (1024, 16), (1024, 64), (1024, 128),
         (1536, 16), (1536, 64), (2048, 16), (2048, 64)]  # fmt: skip
GRU_SIZES = [(512, 16), (512, 128), (1024, 16), (1024, 128), (2048, 16), (2048, 128)]
CASES = (
    [("LSTM", hidden, batch, 256, {}) for hidden, batch in SIZES]
    + [("GRU", hidden, batch, 256, {}) for hidden, batch in GRU_SIZES]
    + [
        ("LSTM", 650, 32, 35, {"num_layers": 2}),
        ("LSTM", 512, 32, 256, {"num_layers": 2}),
        ("LSTM", 512, 32, 256, {"num_layers": 4}),
        ("LSTM", 1024, 32, 256, {"num_layers": 4}),
        ("LSTM", 1024, 32, 256, {"bidirectional": True}),
        ("GRU", 800, 32, 300, {"num_layers": 5, "bidirectional": True}),
    ]
)
SECONDS, ROUNDS = 240, 7


def iteration(module, dtype, hidden, batch, steps, options):
    rnn = module(hidden, hidden, **options).to("cuda", dtype)
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=dtype, requires_grad=True)
    with torch.no_grad():
        dy = torch.randn_like(rnn(x)[0])

    def run():
        torch.autograd.grad(rnn(x)[0], [x, *rnn.parameters()], dy)

    return rnn, run


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def us(run, steps, repeats=4):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        run()
    stop.record()
    stop.synchronize()
    return 1e3 * start.elapsed_time(stop) / repeats / steps


def main():
    dtype = torch.bfloat16 if sys.argv[1:] == ["bf16"] else torch.float16
    begin = time.monotonic()
    print("device,dtype,cell,hidden,batch,steps,layers,directions,torch_us,torch_graph_us,onchip_us,onchip_graph_us,path")
    for cell, hidden, batch, steps, options in CASES:
        if time.monotonic() - begin > SECONDS:
            print("out of time: cases are missing", file=sys.stderr)
            break
        _, plain = iteration(getattr(torch.nn, cell), dtype, hidden, batch, steps, options)
        rnn, fast = iteration(getattr(onchip, cell), dtype, hidden, batch, steps, options)
        runs = [plain, captured(plain), fast, captured(fast)]
        times = [[us(run, steps) for run in runs] for _ in range(ROUNDS)][1:]
        rnn.check()
        medians = ",".join(f"{statistics.median(column):.2f}" for column in zip(*times))
        layers, directions = options.get("num_layers", 1), 2 if options.get("bidirectional") else 1
        print(f"{torch.cuda.get_device_name()},{str(dtype)[6:]},{cell.lower()},{hidden},{batch},{steps},{layers},{directions},"
              f'{medians},"{rnn.explain()}"', flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
