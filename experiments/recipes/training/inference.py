#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference of dense layers without gradients, by torch.nn (cuDNN), by onchip.LSTM and GRU under no_grad, which run a stack as one,
by the same with one layer after another, and by the recurrences that were made for inference (onchip.from_torch): a CSV of us per
step, interleaved medians with the least and the most, plain and in a CUDA graph. stacks: several layers, and sequences of one step.
alternating: layers of which every other one, the first among them, goes from the last step to the first; apart: between flips.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/inference.py [stacks|alternating] > FILE.csv"""
import sys
from unittest import mock

import onchip
import torch
from onchip import nn
from whole_networks import cells, graph_of, spread_columns, times_us

SIZES = [(256, 1), (256, 16), (256, 64), (512, 1), (512, 16), (512, 64), (1024, 1), (1024, 4), (1024, 16), (1024, 64), (1536, 4),
         (1536, 64), (2048, 4), (2048, 16), (512, 256), (1024, 128), (1024, 512)]  # fmt: skip
STACKS = [(4, 512, 4, 256), (3, 1024, 16, 256), (2, 650, 20, 35), (4, 512, 64, 256), (4, 1024, 64, 256), (5, 384, 64, 1600),
          (1, 512, 1, 1), (1, 1024, 32, 1), (2, 512, 1, 1), (3, 256, 1, 1), (1, 512, 4, 4)]  # fmt: skip
ALTERNATING = [(5, 384, 64, 1600), (5, 384, 128, 1600), (5, 384, 1024, 1600)]
ROUNDS, REPEATS = 5, 2
WAYS = "torch", "module", "apart", "from_torch"


def ways(cell, layers, hidden, batch, steps):
    """What is called with an input, of WAYS; None where there is none."""
    torch.manual_seed(1)
    plain = getattr(torch.nn, cell)(hidden, hidden, layers).half().cuda()
    module = getattr(onchip, cell)(hidden, hidden, layers).half().cuda().eval()
    module.load_state_dict(plain.state_dict())
    try:
        own = onchip.from_torch(plain, batch, most_steps=steps)
    except (onchip.DoesNotFit, ValueError):
        own = None

    def apart(x):
        with mock.patch.object(nn, "MOST_AT_ONCE", 0):
            return module(x)

    return plain.eval(), module, apart, own


class Alternating:
    """Layers one after another; `flipped`: every other one between flips."""

    def __init__(self, layers, flipped):
        self.layers, self.flipped = layers, flipped

    def __call__(self, x):
        for number, layer in enumerate(self.layers):
            turn = (lambda x: x.flip(0)) if self.flipped and number % 2 == 0 else (lambda x: x)
            x = turn(layer(turn(x))[0])
        return (x,)

    def explain(self):
        return "; ".join(dict.fromkeys(layer.explain() for layer in self.layers))


def alternating_ways(cell, layers, hidden, *_):
    torch.manual_seed(1)
    plain = [getattr(torch.nn, cell)(hidden, hidden).half().cuda() for _ in range(layers)]
    own = [[getattr(onchip, cell)(hidden, hidden, **of).half().cuda().eval() for of in all_of]
           for all_of in ([{"reverse": number % 2 == 0} for number in range(layers)], [{}] * layers)]  # fmt: skip
    for of in own:
        for layer, same in zip(of, plain):
            layer.load_state_dict(same.state_dict())
    return Alternating(plain, True), Alternating(own[0], False), Alternating(own[1], True), None


@torch.no_grad()
def main():
    names = [way + kind for way in WAYS for kind in ("_us", "_graph_us")]
    print("device,cell,precision,layers,hidden,batch,steps," + ",".join(spread_columns(*names)) + ",path,from_torch_plan,error", flush=True)
    of_layers = [(1, *size, 512) for size in SIZES]
    sizes_of = [("LSTM", of_layers), ("GRU", of_layers[:11])]
    if sys.argv[1:]:
        sizes_of = [(cell, {"stacks": STACKS, "alternating": ALTERNATING}[sys.argv[1]]) for cell in ("LSTM", "GRU")]
    for cell, sizes in sizes_of:
        for layers, hidden, batch, steps in sizes:
            x = torch.randn(steps, batch, hidden, device="cuda").half()
            runs = []
            of_case = alternating_ways if "alternating" in sys.argv else ways
            for way in (found := of_case(cell, layers, hidden, batch, steps)):
                run = way and (lambda way=way: way(x))
                runs += [run, run and graph_of(run)]
            y = found[0](x)[0].float()
            error = float((found[1](x)[0].float() - y).norm() / y.norm())
            path = found[1].explain()
            repeats = max(REPEATS, 64 // steps)  # about a millisecond
            times = [us and us / steps for of in times_us(runs, ROUNDS, repeats) for us in of]
            plan = found[3].fits[0].plan if found[3] else ""
            case = torch.cuda.get_device_name(), cell.lower(), "fp16", layers, hidden, batch, steps
            print(cells(*case, *times, f'"{path}"', f'"{plan}"', f"{error:.1e}"), flush=True)


if __name__ == "__main__":
    main()
