# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM and GRU to train with, a line changed. Imports torch; the package imports this at its first use.

No kernels of onchip are called yet: everything goes torch's own way, but float64, which takes a plain formula. That can be
differentiated twice on any device, where cuDNN cannot, and is what gradcheck tests.
"""
import torch
from torch.nn.functional import dropout, linear
from torch.nn.utils.rnn import PackedSequence


def _lstm(projected, h, c, weights, bias):
    i, f, g, o = (projected + linear(h, weights, bias)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(projected, h, c, weights, bias):
    x_r, x_z, x_n = projected.chunk(3, -1)
    h_r, h_z, h_n = linear(h, weights, bias).chunk(3, -1)
    z = (x_z + h_z).sigmoid()
    n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return n + z * (h - n), c


def _plain(module, step, input, h0, c0):
    """Layers and directions one after another: input [steps, batch, any] -> output and the last h and c of each."""
    directions, last = 2 if module.bidirectional else 1, []
    for layer in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            w_ih, w_hh, b_ih, b_hh = (
                getattr(module, name + suffix, None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            place = layer * directions + direction
            h, c, states = h0[place], c0[place], []
            projected = linear(input, w_ih, b_ih)
            for of_step in reversed(projected) if direction else projected:
                h, c = step(of_step, h, c, w_hh, b_hh)
                states.append(h)
            outputs.append(torch.stack(states[::-1] if direction else states))
            last.append((h, c))
        input = torch.cat(outputs, -1)
        if module.dropout and layer + 1 < module.num_layers:
            input = dropout(input, module.dropout, module.training)
    h, c = (torch.stack(state) for state in zip(*last))
    return input, h, c


def _takes_plain(module, input):
    return not isinstance(input, PackedSequence) and input.dtype == torch.float64 and not module.proj_size


def _forward(module, step, input, states):
    """`states`: h0, or h0 and c0, or none: zeros. As the torch modules take and return them."""
    is_batched = input.dim() == 3
    if input.dim() not in (2, 3) or input.shape[-1] != module.input_size:
        raise RuntimeError(
            f"expected an input of 2 or 3 dimensions, the last of {module.input_size}, found {list(input.shape)}"
        )
    x = input if is_batched else input.unsqueeze(1)
    x = x.transpose(0, 1) if is_batched and module.batch_first else x
    if len(x) == 0:
        raise RuntimeError("expected a sequence of at least one step")
    places = module.num_layers * (2 if module.bidirectional else 1)
    shape = (places, module.hidden_size) if not is_batched else (places, x.shape[1], module.hidden_size)
    for state in states:
        if tuple(state.shape) != shape:
            raise RuntimeError(f"expected hidden states of size {list(shape)}, found {list(state.shape)}")
    given = [state if is_batched else state.unsqueeze(1) for state in states]
    zeros = x.new_zeros(places, x.shape[1], module.hidden_size)
    output, h, c = _plain(module, step, x, *(given + [zeros, zeros])[:2])
    if not is_batched:
        return output.squeeze(1), h.squeeze(1), c.squeeze(1)
    return output.transpose(0, 1) if module.batch_first else output, h, c


class LSTM(torch.nn.LSTM):
    """torch.nn.LSTM: the same constructor, parameters and state_dict."""

    def forward(self, input, hx=None):
        if not _takes_plain(self, input):
            return super().forward(input, hx)
        output, h, c = _forward(self, _lstm, input, hx or ())
        return output, (h, c)


class GRU(torch.nn.GRU):
    """torch.nn.GRU: the same constructor, parameters and state_dict."""

    def forward(self, input, hx=None):
        if not _takes_plain(self, input):
            return super().forward(input, hx)
        output, h, _ = _forward(self, _gru, input, () if hx is None else (hx,))
        return output, h


def replace(model):
    """Every torch.nn.LSTM and GRU of the model becomes an onchip.LSTM or GRU, in place: parameters, hooks and optimizers
    that know them stay. Classes derived from them are left as they are. Returns the model."""
    for module in model.modules():
        for cls in (LSTM, GRU):
            if type(module) is cls.__base__:
                module.__class__ = cls
    return model
