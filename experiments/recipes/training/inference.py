#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference of dense layers without gradients, by torch.nn (cuDNN), by the recurrences that training has (onchip.LSTM and GRU
under no_grad) and by those that were made for inference (onchip.from_torch): a CSV of us per step, interleaved medians with the
least and the most, plain and in a CUDA graph.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/inference.py > FILE.csv"""
import onchip
import torch
from whole_networks import cells, graph_of, spread_columns, times_us

SIZES = [(256, 1), (256, 16), (256, 64), (512, 1), (512, 16), (512, 64), (1024, 1), (1024, 4), (1024, 16), (1024, 64), (1536, 4),
         (1536, 64), (2048, 4), (2048, 16), (512, 256), (1024, 128), (1024, 512)]  # fmt: skip
STEPS, ROUNDS, REPEATS = 512, 5, 2
WAYS = "torch", "module", "from_torch"


def ways(cell, hidden, batch):
    """What is called with an input, of WAYS; None where there is none."""
    torch.manual_seed(1)
    plain = getattr(torch.nn, cell)(hidden, hidden).half().cuda()
    module = getattr(onchip, cell)(hidden, hidden).half().cuda()
    module.load_state_dict(plain.state_dict())
    try:
        own = onchip.from_torch(plain, batch)
    except (onchip.DoesNotFit, ValueError):
        own = None
    return plain.eval(), module.eval(), own


@torch.no_grad()
def main():
    names = [way + kind for way in WAYS for kind in ("_us", "_graph_us")]
    print("device,cell,precision,hidden,batch,steps," + ",".join(spread_columns(*names)) + ",path,from_torch_plan", flush=True)
    for cell in ("LSTM", "GRU"):
        for hidden, batch in SIZES:
            x = torch.randn(STEPS, batch, hidden, device="cuda").half()
            runs = []
            for way in (found := ways(cell, hidden, batch)):
                run = way and (lambda way=way: way(x))
                runs += [run, run and graph_of(run)]
            times = [us and us / STEPS for of in times_us(runs, ROUNDS, REPEATS) for us in of]
            plan = found[2].fits[0].plan if found[2] else ""
            sizes = torch.cuda.get_device_name(), cell.lower(), "fp16", hidden, batch, STEPS
            print(cells(*sizes, *times, f'"{found[1].explain()}"', f'"{plan}"'), flush=True)


if __name__ == "__main__":
    main()
