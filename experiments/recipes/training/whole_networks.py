# SPDX-License-Identifier: Apache-2.0
"""What the recipes of whole networks share: training in 16 bits, the memory of an iteration, and times side by side."""
import gc
import statistics
import sys

import torch
from training_attention import MIB, peak_mib
from training_torch import captured, us

SCALE = 1024  # of losses: fp16 has no gradients below 6e-8
PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Training:
    """An iteration of a network in fp16 or bf16 at each call: the loss, its gradients, and a step of the optimizer on fp32 copies
    of the weights. Gradients are SCALE times as large, which the optimizer's rate or epsilon and `clip`, the largest norm, allow
    for. Nothing waits for the GPU, so that an iteration can be captured."""

    def __init__(self, network, loss, optimizer, clip=None):
        self.network, self.loss, self.clip = network, loss, clip
        self.weights = list(network.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        self.optimizer = optimizer(self.masters)

    def __call__(self, *given):
        found = torch.autograd.grad(SCALE * self.loss(self.network, *given), self.weights)
        gradients = [torch.empty_like(master) for master in self.masters]
        torch._foreach_copy_(gradients, found)
        del found
        for master, gradient in zip(self.masters, gradients):
            master.grad = gradient
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.masters, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)


def footprint(make):
    """What make() makes to be called again and again, and the most MiB that it takes, with all that it holds."""
    gc.collect()
    before = torch.cuda.memory_allocated()
    run = make()
    for _ in range(2):  # finds the kernels, and has the optimizer's state
        run()
    held = torch.cuda.memory_allocated() - before
    return run, peak_mib(run) + held / MIB


def graph_of(run):
    """None where it cannot be captured."""
    try:
        return captured(run)
    except RuntimeError as problem:
        print(f"not captured: {str(problem).splitlines()[0]}", file=sys.stderr)
        return None


def times_us(runs, rounds, repeats):
    """Of each run the median, the least and the most us of a call, interleaved; None thrice where there is no run."""
    found = [[us(run, 1, repeats) if run else None for run in runs] for _ in range(rounds + 1)][1:]
    return [(statistics.median(of), min(of), max(of)) if of[0] else (None,) * 3 for of in zip(*found)]


def spread_columns(*names):
    """Of times_us."""
    return [name + part for name in names for part in ("", "_low", "_high")]


def cells(*values):
    """Of a CSV's row; None is empty."""
    return ",".join("" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)
