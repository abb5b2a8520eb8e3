# SPDX-License-Identifier: Apache-2.0
"""A torch.nn.LSTM or GRU, or onchip's, that stays on the chip and answers a step at a time, in microseconds. Imports torch; the
package imports this at its first use.

    with onchip.Stream(lstm) as stream:           # its kernel waits on the GPU, with all weights in registers
        for x in samples:                         # [input], in host memory
            y = stream(x)                         # [hidden]: h of the last layer; the state stays on the GPU
        stream.reset()                            # zeros, or a state as the module takes it
        stream.load(lstm)                         # its weights of today; the kernel goes on
"""
import ctypes

import torch

from . import api, library, recurrent_layer

KINDS = {"LSTM": "lstm", "GRU": "gru"}


def _like(module):
    """What modules have in common of which one stream may have the weights."""
    kind = next((base.__name__ for base in type(module).__mro__ if base in (torch.nn.LSTM, torch.nn.GRU)), None)
    if kind is None:
        raise TypeError(f"a stream is of a torch.nn.LSTM or GRU, not of a {type(module).__name__}")
    if module.bidirectional or getattr(module, "proj_size", 0):
        raise ValueError("a stream has one direction and no projections")
    return KINDS[kind], module.input_size, module.hidden_size, module.num_layers, module.weight_hh_l0.dtype


def _weights(module):
    """Of each layer w_ih, w_hh, b_ih, b_hh, contiguous; None for biases that are not there."""
    parts = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
    return [
        [getattr(module, f"{part}_l{layer}").detach().contiguous() if module.bias or part[0] == "w" else None for part in parts]
        for layer in range(module.num_layers)
    ]


class Stream(api._Handle):
    """Of `module`, of one direction, in fp16 or bf16 on a CUDA device. batch: samples of a step, 1 to 8. streams: so many
    independent ones in one kernel, each with states and SMs of its own; methods take which. idle: seconds without a request until
    the kernel parks, so that torch.cuda.synchronize() and others who wait for the device go on; the next request starts it again.
    wait: seconds that a step waits for its answer at most. DoesNotFit where the registers do not hold the weights. One thread at a
    time."""

    _kind = "stream"

    def __init__(self, module, batch=1, streams=1, idle=0.01, wait=1.0):
        self._like = _like(module)
        cell, self.input_size, self.hidden_size, self.num_layers, self.dtype = self._like
        self.batch, self.streams, self.device = batch, streams, module.weight_hh_l0.device
        if self.dtype not in recurrent_layer.PRECISIONS or self.device.type != "cuda":
            raise ValueError(f"a stream is of fp16 or bf16 on a CUDA device, not of {self.dtype} on {self.device}")
        kinds = api._number(api.CELLS, cell, "cell"), api._number(api.PRECISIONS, recurrent_layer.PRECISIONS[self.dtype], "precision")
        stack = library.Stack(
            *kinds, self.num_layers, self.input_size, self.hidden_size, batch, streams, round(1e6 * idle), round(1e6 * wait)
        )
        with recurrent_layer._context(self.device):
            super().__init__("create", ctypes.byref(stack), self._addresses(module))
    def _addresses(self, module):
        self._kept = _weights(module)  # until they are copied
        torch.cuda.current_stream(self.device).synchronize()  # who writes them
        address = lambda tensor: tensor.data_ptr() if tensor is not None else None  # noqa: E731
        return (library.StackWeights * len(self._kept))(*(tuple(map(address, of)) for of in self._kept))

    def _given(self, x):
        x = x if isinstance(x, torch.Tensor) else torch.as_tensor(x)
        if x.numel() != self.batch * self.input_size or x.shape[-1] != self.input_size:
            raise ValueError(f"x is {list(x.shape)}; expected [{self.input_size}] or [{self.batch}, {self.input_size}]")
        return x.detach().to("cpu", self.dtype).contiguous()

    def _call(self, name, *arguments):
        if not self._handle:
            raise ValueError("the stream is closed")
        api._call(f"onchip_stream_{name}", self._handle, *arguments)

    def __call__(self, x, stream=0):
        """A step: h of the last layer, of x's leading shape, in host memory."""
        x = self._given(x)
        y = torch.empty(*x.shape[:-1], self.hidden_size, dtype=self.dtype)
        self._call("step", stream, x.data_ptr(), y.data_ptr())
        return y

    def send(self, x, stream=0):
        """The first half of a step, which waits for nothing; at most 8 wait for their answers."""
        self._call("send", stream, self._given(x).data_ptr())

    def receive(self, stream=0):
        """The answer to the oldest request, [batch, hidden]."""
        y = torch.empty(self.batch, self.hidden_size, dtype=self.dtype)
        self._call("receive", stream, y.data_ptr())
        return y

    def reset(self, hx=None, stream=0):
        """The next step begins with hx, as the module takes it: (h, c) of an LSTM, h of a GRU, [num_layers, batch, hidden_size]; None:
        zeros. No request may wait for its answer."""
        states = (None, None) if hx is None else tuple(hx) if isinstance(hx, (tuple, list)) else (hx, None)
        shape = self.num_layers, self.batch, self.hidden_size
        given = [None if state is None else state.detach().to(self.device, self.dtype).reshape(shape).contiguous() for state in states]
        torch.cuda.current_stream(self.device).synchronize()  # who writes them
        self._call("reset", stream, *(None if state is None else state.data_ptr() for state in given))

    def load(self, module):
        """Steps from now on have the weights that `module` has now; states stay. No request may wait for its answer."""
        if _like(module) != self._like:
            raise ValueError(f"the module is {_like(module)}; expected {self._like}")
        self._call("set_weights", self._addresses(module))

    def explain(self):
        """The plan, in a line."""
        return api._text("onchip_stream_plan", self._handle)

    def close(self):
        """Ends the kernel at once."""
        self.__del__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
