#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recurrent layers of EcoRNN's language model (2 x 650, 32 samples, 35 steps), forward and backward: one kernel for each
operation, as an unfused layer has them, torch.nn.LSTM (cuDNN) and onchip.LSTM, each plain and in a CUDA graph. A CSV of us per
step, interleaved medians, for the recipes of experiments/recipes/claims/ecornn.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_claims.py > FILE.csv"""
import statistics
import sys

import onchip
import torch
from training_torch import captured, iteration, us

HIDDEN, BATCH, STEPS, LAYERS, ROUNDS = 650, 32, 35, 2, 9


class Unfused(torch.nn.LSTM):
    """Two products and each operation of the cell for itself, step by step."""

    def forward(self, x):
        for layer in range(self.num_layers):
            w_ih, w_hh, b_ih, b_hh = (getattr(self, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            h = c = x.new_zeros(x.shape[1], self.hidden_size)
            outputs = []
            for step in x:
                gates = torch.nn.functional.linear(step, w_ih, b_ih) + torch.nn.functional.linear(h, w_hh, b_hh)
                i, f, g, o = gates.chunk(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                outputs.append(h)
            x = torch.stack(outputs)
        return x, (h, c)


def main():
    columns = [f"{name}{way}_us" for name in ("unfused", "cudnn", "onchip") for way in ("", "_graph")]
    print("device,cell,precision,hidden,batch,steps,layers," + ",".join(columns))
    for dtype, precision in ((torch.float16, "fp16"), (torch.bfloat16, "bf16")):
        runs = []
        for kind in (Unfused, torch.nn.LSTM, onchip.LSTM):
            lstm, run = iteration(kind, dtype, HIDDEN, BATCH, STEPS, {"num_layers": LAYERS})
            run()
            if kind is onchip.LSTM and lstm.explain().startswith("torch:"):
                sys.exit(f"not measured: onchip.LSTM ran {lstm.explain()}")
            runs += [run, captured(run)]
        times = [[us(run, STEPS) for run in runs] for _ in range(ROUNDS)][1:]
        lstm.check()
        medians = ",".join(f"{statistics.median(column):.2f}" for column in zip(*times))
        print(f"{torch.cuda.get_device_name()},lstm,{precision},{HIDDEN},{BATCH},{STEPS},{LAYERS},{medians}", flush=True)


if __name__ == "__main__":
    main()
