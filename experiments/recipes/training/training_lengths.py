#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM and onchip.LSTM with samples of other lengths, drawn evenly from 10 to 100 % of the steps, beside the same
padded: a CSV of us per step of forward and all gradients, interleaved medians; `graph`: in a CUDA graph; `packed`: with
pack_padded_sequence and its gradient; `rows`: of a sequence that was packed before.
PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_lengths.py [fp16|bf16]"""
import statistics
import sys

import onchip
import torch
from torch.nn.utils.rnn import pack_padded_sequence
from training_torch import captured, us

CASES = [(1024, 64, 256, {}), (1024, 64, 512, {}), (512, 32, 1000, {}), (512, 64, 256, {}), (512, 256, 256, {}),
         (1024, 32, 256, {"bidirectional": True}), (1024, 32, 256, {"num_layers": 4})]  # fmt: skip
ROUNDS = 7


def main():
    dtype = torch.bfloat16 if sys.argv[1:] == ["bf16"] else torch.float16
    print("device,dtype,hidden,batch,steps,layers,directions,mean_length,torch_graph_us,torch_packed_us,onchip_graph_us,"
          "onchip_lengths_graph_us,onchip_lengths_us,onchip_packed_us,torch_rows_us,onchip_rows_us,onchip_rows_graph_us")  # fmt: skip
    for hidden, batch, steps, options in CASES:
        torch.manual_seed(1)
        plain, fast = (kind(hidden, hidden, **options).to("cuda", dtype) for kind in (torch.nn.LSTM, onchip.LSTM))
        x = torch.randn(steps, batch, hidden, device="cuda", dtype=dtype, requires_grad=True)
        on_host = torch.linspace(0.1 * steps, steps, batch).round().long()[torch.randperm(batch)]
        lengths = on_host.cuda()
        dy = torch.randn_like(plain(x)[0])

        def gradients(module, output, dy):
            torch.autograd.grad(output, [x, *module.parameters()], dy)

        def packed(module):
            output = module(pack_padded_sequence(x, on_host, enforce_sorted=False))[0].data
            gradients(module, output, dy.flatten(0, 1)[: len(output)])

        with torch.no_grad():
            sequence = pack_padded_sequence(x, on_host, enforce_sorted=False)
        sequence.data.requires_grad_()

        def rows(module):
            output = module(sequence)[0].data
            torch.autograd.grad(output, [sequence.data, *module.parameters()], dy.flatten(0, 1)[: len(output)])

        runs = [
            captured(lambda: gradients(plain, plain(x)[0], dy)),
            lambda: packed(plain),
            captured(lambda: gradients(fast, fast(x)[0], dy)),
            captured(lambda: gradients(fast, fast(x, lengths=lengths)[0], dy)),
            lambda: gradients(fast, fast(x, lengths=lengths)[0], dy),
            lambda: packed(fast),
            lambda: rows(plain),
            lambda: rows(fast),
            captured(lambda: rows(fast)),
        ]
        times = [[us(run, steps) for run in runs] for _ in range(ROUNDS)][1:]
        fast.check()
        medians = ",".join(f"{statistics.median(column):.2f}" for column in zip(*times))
        layers, directions = options.get("num_layers", 1), 2 if options.get("bidirectional") else 1
        mean = on_host.double().mean().item() / steps
        print(f"{torch.cuda.get_device_name()},{str(dtype)[6:]},{hidden},{batch},{steps},{layers},{directions},{mean:.3f},"
              f"{medians}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
