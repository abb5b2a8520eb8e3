# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM and GRU that train on the chip where they can. Imports torch; the package imports this at its first use.

    lstm = onchip.LSTM(512, 512, num_layers=2).half().cuda()  # in the place of torch.nn.LSTM
    onchip.replace(model)                                     # or in a model that is there
    print(lstm.explain())                                     # what the last forward ran on

Every layer and direction is one node of autograd, over onchip_training_* of the C API.
"""
import contextlib
import warnings

import torch
from torch.nn.utils.rnn import PackedSequence

from . import api

_PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_LAYERS = {}  # by device, sizes and type: the layer, or why there is none. For ever: graphs are replayed


def _is_on_device(tensor):
    return tensor.is_cuda


def _context(tensor):
    return torch.cuda.device(tensor.device)


def _stream():
    return torch.cuda.current_stream().cuda_stream


def _is_capturing():
    return torch.cuda.is_current_stream_capturing()


def _layer(x, size, hidden):
    """An api.Training for x [steps, batch, any] with inputs of `size`, or a sentence that says why there is none."""
    steps, batch = x.shape[:2]
    key = (x.device, x.dtype, size, hidden, batch, steps)
    if key not in _LAYERS:
        with _context(x):
            if _is_capturing():
                raise RuntimeError(
                    f"an LSTM of {steps} steps, batch {batch} and sizes {size} and {hidden} has no kernels yet, and "
                    "they cannot be loaded while a CUDA graph is captured; run it once before"
                )
            try:
                _LAYERS[key] = api.Training("lstm", _PRECISIONS[x.dtype], size, hidden, batch, steps)
            except api.DoesNotFit as problem:
                _LAYERS[key] = str(problem)
            except (OSError, api.ApiError) as problem:
                warnings.warn(f"onchip.LSTM takes torch's path: {problem}")
                _LAYERS[key] = str(problem)
    return _LAYERS[key]


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


def _cell(gates, c):
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _formula(x, h0, c0, w_ih, w_hh, b_ih, b_hh):
    """What a layer computes, by operations that can be differentiated any number of times."""
    zeros = x.new_zeros(x.shape[1], w_hh.shape[1])
    h, c = (zeros if state is None else state for state in (h0, c0))
    projected, y = torch.nn.functional.linear(x, w_ih, b_ih), []
    for step in projected:
        h, c = _cell(step + torch.nn.functional.linear(h, w_hh, b_hh), c)
        y.append(h)
    return torch.stack(y), h, c


class _Lstm(torch.autograd.Function):
    """One layer and direction: (x, h0, c0, w_ih, w_hh, b_ih, b_hh) -> y, hn, cn. States and biases may be None."""

    @staticmethod
    def _run_forward(x, *others):
        x = x.contiguous()
        given = dict(zip(("x", "h0", "c0", "w_ih", "w_hh", "b_ih", "b_hh"), (x, *others)))
        given = {name: None if tensor is None else tensor.contiguous() for name, tensor in given.items()}
        hidden = given["w_hh"].shape[1]
        layer = _layer(x, x.shape[2], hidden)
        states = x.new_empty(x.shape[0] + 1, x.shape[1], hidden)
        cells, kept = torch.empty_like(states), x.new_empty(layer.kept_bytes // x.element_size())
        workspace = torch.empty(layer.workspace_bytes, dtype=torch.uint8, device=x.device)
        arrays = dict(given, states=states, cells=cells, kept=kept, workspace=workspace)
        with _context(x):
            layer.forward(_stream(), **{name: _address(tensor) for name, tensor in arrays.items()})
        return states, cells, kept

    @staticmethod
    def forward(ctx, *given):
        states, cells, kept = _Lstm._run_forward(*given)
        # The same memory, but no view, so that autograd sees who changes y before backward has read it.
        y = states.new_empty(0).set_(states, states[0].numel(), states[1:].shape, states.stride())
        hn, cn = states[-1].clone(), cells[-1].clone()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*given, y, states, cells, kept)
        ctx.is_kept = True
        return y, hn, cn

    @staticmethod
    def backward(ctx, dy, dhn, dcn):
        *given, y, states, cells, kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: the gradients themselves are to be differentiated
            return _Lstm._differentiable(ctx.needs_input_grad, given, (dy, dhn, dcn))
        if not ctx.is_kept:  # a backward has overwritten it, with retain_graph
            states, cells, kept = _Lstm._run_forward(*given)
        ctx.is_kept = False
        x, h0, c0, w_ih, w_hh, b_ih, b_hh = given
        layer = _layer(x, x.shape[2], w_hh.shape[1])
        dy = torch.zeros_like(y) if dy is None else dy
        needs = dict(zip(("dx", "dh0", "dc0", "dw_ih", "dw_hh", "db", "db_hh"), ctx.needs_input_grad))
        needs["db"] |= needs.pop("db_hh")
        of = {"dx": x, "dh0": h0, "dc0": c0, "dw_ih": w_ih, "dw_hh": w_hh, "db": b_ih if b_hh is None else b_hh}
        gradients = {name: x.new_empty(of[name].shape) if needed else None for name, needed in needs.items()}
        arrays = dict(
            gradients,
            **{name: tensor.contiguous() for name, tensor in (("x", x), ("w_ih", w_ih), ("w_hh", w_hh), ("dy", dy))},
            **{name: None if d is None else d.contiguous() for name, d in (("dhn", dhn), ("dcn", dcn))},
            states=states, cells=cells, kept=kept,
            workspace=torch.empty(layer.workspace_bytes, dtype=torch.uint8, device=x.device),
        )  # fmt: skip
        with _context(x):
            layer.backward(_stream(), **{name: _address(tensor) for name, tensor in arrays.items()})
        db = gradients["db"]
        return (
            *(gradients[name] for name in ("dx", "dh0", "dc0", "dw_ih", "dw_hh")),
            *(db if needed else None for needed in ctx.needs_input_grad[5:]),
        )

    @staticmethod
    def _differentiable(needed, given, gradients):
        # Aliases: h0 may itself depend on the weights, which is not this layer's to count.
        given = [None if tensor is None else tensor.view_as(tensor) for tensor in given]
        outputs, seeds = zip(*((y, dy) for y, dy in zip(_formula(*given), gradients) if dy is not None))
        wanted = [tensor for tensor, is_needed in zip(given, needed) if is_needed]
        found = iter(torch.autograd.grad(outputs, wanted, seeds, create_graph=True, allow_unused=True))
        return tuple(next(found) if is_needed else None for is_needed in needed)


def _autocast_dtype():
    """None outside of autocast."""
    if not torch.is_autocast_enabled():
        return None
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype("cuda")
    return torch.get_autocast_gpu_dtype()


def _no_autocast():
    return torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled() else contextlib.nullcontext()


class _Explained:
    _path = "no forward yet"

    def explain(self):
        """On what the last forward ran, and why: "on the chip; forward: groups=4 ...", or "torch: ..."."""
        return self._path


class LSTM(_Explained, torch.nn.LSTM):
    """torch.nn.LSTM, whose forward and backward run on the chip for fp16 and bf16 on a CUDA device, also under autocast;
    all else (packed sequences, proj_size, other types, weights that do not fit) silently takes torch's own path. A
    gradient of gradients is computed step by step, by torch's operations."""

    def forward(self, input, hx=None):
        why = self._why_not(input, hx)
        if why is None:
            dtype = self._dtype(input)
            with _no_autocast():
                found = self._on_chip(input, hx, dtype)
            if not isinstance(found, str):
                return found
            why = found
        self._path = f"torch: {why}"
        return super().forward(input, hx)

    def check(self):
        """Waits for the current stream; onchip.CudaError if a kernel on the device has given up waiting. The next
        forward or backward raises it in any case."""
        weight = self.weight_hh_l0
        with _context(weight):
            for key, layer in _LAYERS.items():
                if key[0] == weight.device and not isinstance(layer, str):
                    return layer.check(_stream())

    @staticmethod
    def _dtype(input):
        autocast = _autocast_dtype()
        return input.dtype if autocast is None or input.dtype == torch.float64 else autocast

    def _weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def _why_not(self, input, hx):
        """A sentence, or None. Input that nobody takes is left to torch, which has the words for it."""
        if isinstance(input, PackedSequence):
            return "the input is a packed sequence"
        if not torch.is_tensor(input) or not _is_on_device(input):
            return "the input is not on a CUDA device"
        if self.proj_size:
            return "proj_size"
        dtype = self._dtype(input)
        if dtype not in _PRECISIONS:
            return f"the input is {dtype}; the chip trains in float16 and bfloat16"
        if input.dim() not in (2, 3) or input.shape[-1] != self.input_size or input.numel() == 0:
            return f"the input has shape {list(input.shape)}"
        tensors = [weight for weights in self._weights() for weight in weights]
        if hx is not None:
            directions = 2 if self.bidirectional else 1
            batch = [input.shape[0 if self.batch_first else 1]] if input.dim() == 3 else []
            shape = (self.num_layers * directions, *batch, self.hidden_size)
            if len(hx) != 2 or not all(torch.is_tensor(state) and state.shape == shape for state in hx):
                return f"hx is not two states of shape {list(shape)}"
            tensors += hx
        for tensor in tensors:
            if tensor.device != input.device:
                return f"the input is on {input.device}, and a weight or state on {tensor.device}"
            if tensor.dtype != dtype and _autocast_dtype() is None:
                return f"the input is {dtype}, and a weight or state {tensor.dtype}"
        return None

    def _on_chip(self, input, hx, dtype):
        """As forward; or why not, before anything has run."""
        x = input.to(dtype)
        is_batched = x.dim() == 3
        if not is_batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        directions = 2 if self.bidirectional else 1
        sizes = [self.input_size] + [directions * self.hidden_size] * (self.num_layers > 1)
        for layer in (_layer(x, size, self.hidden_size) for size in sizes):
            if isinstance(layer, str):
                return layer
        h0, c0 = (None, None) if hx is None else (s.to(dtype) if is_batched else s.to(dtype).unsqueeze(1) for s in hx)
        finals = []
        for place, weights in enumerate(self._weights()):
            is_reverse = place % directions == 1
            if not is_reverse:
                outputs = []
            states = (None, None) if hx is None else (h0[place], c0[place])
            biases = () if self.bias else (None, None)
            weights = [weight.to(dtype) for weight in weights]
            y, *final = _Lstm.apply(x.flip(0) if is_reverse else x, *states, *weights, *biases)
            outputs.append(y.flip(0) if is_reverse else y)
            finals.append(final)
            if place % directions == directions - 1:
                x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
                if self.dropout and place < (self.num_layers - 1) * directions:
                    x = torch.nn.functional.dropout(x, self.dropout, self.training)
        hn, cn = (torch.stack(states) for states in zip(*finals))
        self._path = f"on the chip; {layer.plan}"
        if not is_batched:
            return x.squeeze(1), (hn.squeeze(1), cn.squeeze(1))
        return x.transpose(0, 1) if self.batch_first else x, (hn, cn)


class GRU(_Explained, torch.nn.GRU):
    """torch.nn.GRU, on torch's own path until there are kernels for it."""

    _path = "torch: there are no training kernels for a GRU yet"


_REPLACED = {torch.nn.LSTM: LSTM, torch.nn.GRU: GRU}


def replace(model):
    """Makes every torch.nn.LSTM and GRU of the model (itself, too) onchip's, in place: parameters, hooks, and who holds a
    module stay as they are. Subclasses of them are left alone. Returns the model."""
    for module in model.modules():
        if type(module) in _REPLACED:
            module.__class__ = _REPLACED[type(module)]
    return model
