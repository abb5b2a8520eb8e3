#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recurrent layers of networks for speech, as Deep Speech 2 has them: five bidirectional ones, GRU and LSTM, forward and all
gradients, of samples of 200 to 1000 steps. torch.nn's (cuDNN) with a sequence packed before, and padded, as if all samples
were as long as the longest; onchip's with lengths. A CSV of ms, interleaved medians with the least and the most, plain and in a
CUDA graph, which does not take cuDNN's packed sequence; `cudnn_best_ms` is the least median of its three. MiB: the most beside x.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/speech.py [bf16] > FILE.csv"""
import sys

import onchip
import torch
from torch.nn.utils.rnn import pack_padded_sequence
from training_attention import peak_mib
from whole_networks import PRECISIONS, cells, graph_of, spread_columns, times_us

SIZES = [(800, 16), (800, 32), (1024, 16), (1024, 32), (1760, 64)]  # hidden, batch
LAYERS, SHORTEST, STEPS, ROUNDS = 5, 200, 1000, 3
NAMES = ("cudnn_packed_ms", "cudnn_padded_ms", "cudnn_padded_graph_ms", "onchip_ms", "onchip_graph_ms")


def measured(cell, dtype, hidden, batch):
    """The mean length's share of STEPS, times of NAMES, MiB of the plain ones, and on what onchip ran."""
    torch.manual_seed(1)
    plain, fast = (getattr(module, cell)(hidden, hidden, LAYERS, bidirectional=True) for module in (torch.nn, onchip))
    fast.load_state_dict(plain.state_dict())
    plain, fast = (rnn.to("cuda", dtype) for rnn in (plain, fast))
    lengths = torch.randint(SHORTEST, STEPS + 1, (batch,))
    lengths[0] = STEPS
    x = torch.randn(STEPS, batch, hidden, device="cuda", dtype=dtype, requires_grad=True)
    dy = torch.randn(STEPS, batch, 2 * hidden, device="cuda", dtype=dtype)
    with torch.no_grad():
        sequence = pack_padded_sequence(x, lengths, enforce_sorted=False)
    rows, on_device = sequence.data.requires_grad_(), lengths.cuda()

    def packed():
        y = plain(sequence)[0].data
        torch.autograd.grad(y, [rows, *plain.parameters()], dy.flatten(0, 1)[: len(y)])

    def padded():
        torch.autograd.grad(plain(x)[0], [x, *plain.parameters()], dy)

    def with_lengths():
        torch.autograd.grad(fast(x, lengths=on_device)[0], [x, *fast.parameters()], dy)

    eager = packed, padded, with_lengths
    for run in eager:
        run()
    memory = [peak_mib(run) for run in eager]
    times = times_us([packed, padded, graph_of(padded), with_lengths, graph_of(with_lengths)], ROUNDS, 1)
    fast.check()
    return lengths.double().mean().item() / STEPS, times, memory, fast.explain()


def main():
    precision = "bf16" if "bf16" in sys.argv[1:] else "fp16"
    columns = [*spread_columns(*NAMES), "cudnn_best_ms"]
    columns += [f"{name}_peak_mib" for name in ("cudnn_packed", "cudnn_padded", "onchip")] + ["path"]
    print("device,cell,precision,hidden,batch,steps,layers,directions,mean_length," + ",".join(columns), flush=True)
    for cell, (hidden, batch) in [(cell, sizes) for sizes in SIZES for cell in ("GRU", "LSTM")]:
        try:
            mean, times, memory, path = measured(cell, PRECISIONS[precision], hidden, batch)
            values = [us and us / 1e3 for of in times for us in of]
            values += [min(of[0] for of in times[:3] if of[0]) / 1e3, *memory]
        except torch.OutOfMemoryError:
            mean, values, path = None, [None] * (len(columns) - 1), "out of memory"
        sizes = precision, hidden, batch, STEPS, LAYERS, 2, mean
        print(cells(torch.cuda.get_device_name(), cell.lower(), *sizes, *values, f'"{path}"'), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
