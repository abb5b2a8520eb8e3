# SPDX-License-Identifier: Apache-2.0
"""The planner, and sparse networks that stay on the chip, over onchip's C API (kernels/api/onchip.h).

    import onchip
    print(onchip.fit("h200", "lstm", hidden=2304, batch=4, density=0.1).why)     # no GPU needed
    print(onchip.predict("h200", "lstm", hidden=2304, batch=4, density=0.1)["step_us"])
    print(onchip.predict("h200", mode="train", cell="lstm", hidden=1024, batch=64, layers=2)["us"])
    print(onchip.predict("h200", network="spdnn:1024x120", gpus=2)["ms"])
    rows = onchip.sweep("h200", {"hidden": [512, 1024]}, "batch=1,4", cell="lstm")   # a table in a notebook; Arrow: rows.arrow
    front = onchip.pareto("h200", "step_us,hidden:max", rows=rows).table
    fast = onchip.from_torch(lstm.half().cuda().eval(), batch=4)                 # a pruned torch.nn.LSTM, GRU or RNN
    output, (h, c) = fast(input)
    lstm = onchip.LSTM(512, 512).half().cuda()                                   # trains as torch.nn.LSTM, but faster
    stream = onchip.Stream(lstm)                                                 # stays on the chip: y = stream(x), a step in microseconds
    attention = onchip.MLPAttention(512, 512, 512).half().cuda()                 # additive, without its intermediate
    network = onchip.FeedForward("spdnn:1024x120")                               # on a GPU, or by the CPU reference
    alive = network.categories(images)                                           # images: a NumPy array, 0 and 1

Importing compiles nothing, loads no library and does not import torch. The library is $ONCHIP_LIBRARY, else
lib/libonchip.so in this package, where pip puts it, else that of build/ above it.
"""
import importlib
from typing import TYPE_CHECKING, Any

from .api import (
    ApiError,
    Chip,
    CudaError,
    DoesNotFit,
    Fit,
    InputError,
    Matrix,
    Program,
    Recurrence,
    Resource,
    Table,
    Training,
    ask,
    fit,
    largest_hidden,
    pareto,
    predict,
    sensitivities,
    sweep,
    sweep_table,
    what_if,
)
from .feed_forward import FeedForward
from .rows import Front, Rows

__all__ = [
    "ApiError",
    "Chip",
    "CudaError",
    "DoesNotFit",
    "FeedForward",
    "Fit",
    "Front",
    "GRU",
    "InputError",
    "LSTM",
    "MLPAttention",
    "Matrix",
    "Program",
    "Recurrence",
    "Resource",
    "Rows",
    "Stream",
    "Table",
    "Training",
    "ask",
    "fit",
    "from_torch",
    "largest_hidden",
    "mlp_scores",
    "pareto",
    "predict",
    "replace",
    "sensitivities",
    "sweep",
    "sweep_table",
    "what_if",
]


_WITH_TORCH = {"GRU": "nn", "LSTM": "nn", "MLPAttention": "attention", "mlp_scores": "attention", "replace": "nn",
               "Stream": "stream"}  # fmt: skip


if TYPE_CHECKING:  # torch's types are not asked for
    GRU: Any
    LSTM: Any
    MLPAttention: Any
    Stream: Any
    mlp_scores: Any
    replace: Any
else:

    def __getattr__(name):
        if name not in _WITH_TORCH:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # torch is imported here, not before
        return getattr(importlib.import_module(f".{_WITH_TORCH[name]}", __name__), name)


def from_torch(module: Any, batch: int = 1, **options: Any) -> Any:
    """A torch.nn.Module with the results of `module`, a torch.nn.LSTM, GRU or RNN; see torch_module.from_torch."""
    from . import torch_module  # torch is imported here, not before

    return torch_module.from_torch(module, batch, **options)
