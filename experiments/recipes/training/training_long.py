#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An LSTM of 512 units trains on 262,144 steps of 4 samples at once, four times as many as cuDNN takes, with a stash of cells: a CSV of
the seconds of an iteration, and of how far each gradient is from double precision, beside those of torch.nn.LSTM in the same type.
Both of torch's go over chunks of steps.
  PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_long.py"""
import time

import onchip
import torch

STEPS, BATCH, HIDDEN, CHUNK = 1 << 18, 4, 512, 1 << 13


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


def main():
    lstm = onchip.LSTM(HIDDEN, HIDDEN, stash="cells").to("cuda", torch.float16)
    exact = torch.nn.LSTM(HIDDEN, HIDDEN).to("cuda", torch.float64)
    exact.load_state_dict(lstm.state_dict())
    x = torch.randn(STEPS, BATCH, HIDDEN, device="cuda", dtype=torch.float16, requires_grad=True)
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
    torchs = torch.nn.LSTM(HIDDEN, HIDDEN).to("cuda", torch.float16)
    torchs.load_state_dict(lstm.state_dict())
    by_torch = gradients(torchs, x.detach(), dy)  # cuDNN takes at most 65,535 steps: in chunks, too
    names = ["x", *(name for name, _ in lstm.named_parameters())]
    for name, ours, theirs, right in zip(names, found, by_torch, expected):
        errors = [((of.double() - right).norm() / right.norm()).item() for of in (ours, theirs)]
        print(f"{torch.cuda.get_device_name()},{STEPS},{BATCH},{HIDDEN},{seconds[-1]:.3f},{name},"
              f"{errors[0]:.2e},{errors[1]:.2e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
