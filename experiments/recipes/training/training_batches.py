#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the first iteration of a batch takes that a layer has not had before, forward and backward, and the second: a CSV of ms.
The first batch of a range compiles; set XDG_CACHE_HOME to an empty folder, so that no kernel is there.
  XDG_CACHE_HOME=$(mktemp -d) PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_batches.py"""
import time

import onchip
import torch

STEPS = 128
CASES = [("LSTM", 512, (64, 61, 57, 60, 37, 40)), ("GRU", 512, (64, 61, 57)), ("LSTM", 1024, (32, 30, 29)),
         ("LSTM", 320, (500, 499, 498))]  # fmt: skip


def ms(rnn, x):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    rnn(x)[0].sum().backward()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin)


def main():
    ms(onchip.LSTM(64, 64).half().cuda(), torch.randn(STEPS, 4, 64, device="cuda", dtype=torch.half))  # CUDA's own start
    print("device,cell,hidden,batch,first_ms,second_ms")
    for cell, hidden, batches in CASES:
        rnn = getattr(onchip, cell)(hidden, hidden).half().cuda()
        for batch in batches:
            x = torch.randn(STEPS, batch, hidden, device="cuda", dtype=torch.half, requires_grad=True)
            print(f"{torch.cuda.get_device_name()},{cell.lower()},{hidden},{batch},{ms(rnn, x):.1f},{ms(rnn, x):.1f}", flush=True)


if __name__ == "__main__":
    main()
