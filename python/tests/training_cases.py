# SPDX-License-Identifier: Apache-2.0
"""What tests of onchip.LSTM and GRU share: a layer that computes from the pointers it is given, in double precision on the CPU, in the
place of the kernels; and gradients beside those of torch's in double precision."""
import collections
import concurrent.futures
import ctypes
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("no torch") from None

import onchip
from onchip import api, nn, recurrent_layer
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TOLERANCE = {torch.float16: 3e-3, torch.bfloat16: 2e-2, torch.float64: 1e-9}


class FakeTraining:
    """api.Training in fp64 on the CPU."""

    workspace_bytes, plan = 64, "fake"
    arrays = api.Training.arrays

    @staticmethod
    def library(is_inference, cell, precision, input, hidden, batch, steps, directions, length_bytes, layers):
        return "cuDNN is chosen" if steps == 1 and length_bytes == 0 else ""

    @staticmethod
    def memory(layers, cell, precision, input, hidden, batch, steps, directions, length_bytes, stash):
        peak = layers * steps * batch * hidden * {"gates": 6, "cells": 2, "replay": 1}[stash]
        return peak, peak

    @staticmethod
    def within(layers, budget, may_replay, *sizes):
        """As if chunks did not matter."""
        gates, cells, replay = (FakeTraining.memory(1, *sizes, stash)[0] for stash in api.STASHES)
        ways = [("gates", of_cells, 0, of_cells * cells + (layers - of_cells) * gates) for of_cells in range(layers)]
        ways += [("cells", 0, 0, layers * cells)] + [("replay", 0, 2, layers * replay)] * may_replay
        return next((way for way in ways if way[3] <= budget), ways[-1])

    def __init__(self, cell, precision, input, hidden, batch, steps, directions, length_bytes, stash="gates", mask=None, chunk=0, layers=1,
                 is_reverse=False):  # fmt: skip
        assert cell in ("lstm", "gru") and precision == "fp64" and stash in (*api.STASHES, "none")
        if hidden > 64 or batch > 16:
            raise api.DoesNotFit(f"{hidden} units of {batch} samples do not fit")
        self._parts, self._with_weights = max(directions, layers), {}
        self.cell, self.gates = cell, {"lstm": 4, "gru": 3}[cell]
        self.sizes, self.mask = (input, hidden, batch, steps, directions, length_bytes), mask
        self.forward_bytes = 0 if mask is not None or (stash == "none" and steps == 1) else 48  # a step needs no workspace
        self.stash, self.kept_bytes, self.layers, self.is_reverse = stash, 64 * max(steps - 1, 0), layers, is_reverse
        assert not is_reverse or stash == "none"
        assert layers == 1 or (stash in ("replay", "none") and (directions, length_bytes, mask) == (1, 0, None))

    def _of(self, arrays):
        """Tensors of each direction."""
        assert len(arrays) == self.sizes[4]
        return self._tensors_of(arrays, *self.sizes)

    def _tensors_of(self, arrays, input, hidden, batch, steps, directions, length_bytes):
        packed = arrays[0]["rows"]
        of_rows = (packed,) if packed else (steps, batch)
        state, output, rows = (batch, hidden), (*of_rows, hidden), self.gates * hidden
        shapes = {"x": (*of_rows, input), "w_ih": (rows, input), "w_hh": (rows, hidden), "b_ih": (rows,),
                  "b_hh": (rows,), "h0": state, "c0": state, "y": output, "dy": output, "hn": state, "cn": state, "dhn": state,
                  "dcn": state, "db": (rows,), "db_hh": (rows,), "cells": output if length_bytes else (steps + 1, *state),
                  "kept": ((packed or steps * batch) * 4 * (hidden if self.mask is not None else (hidden + 7) // 8 * 8) if self.stash == "gates" else self.kept_bytes // 8,)}  # fmt: skip
        for name in ("x", "w_ih", "w_hh", "h0", "c0"):
            shapes["d" + name] = shapes[name]
        if self.stash == "replay":
            for name in ("dw_ih", "dw_hh"):
                padded = [(size + 7) // 8 * 8 for size in (hidden, shapes[name][1])]
                shapes[name] = (self.gates, *padded)

        def tensor(name, shape, address):
            strides = torch.empty(shape, device="meta").stride()
            if name in ("y", "dy"):
                strides = (batch * directions * hidden, directions * hidden, 1)[-len(shape) :]
            count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
            buffer = (ctypes.c_double * count).from_address(address)
            return torch.frombuffer(buffer, dtype=torch.float64).as_strided(shape, strides)

        found = [{name: tensor(name, shape, a[name]) for name, shape in shapes.items() if a.get(name)} for a in arrays]
        for a, of in zip(arrays, found):
            assert bool(a.get("lengths")) == bool(length_bytes) and a["rows"] == packed
            of["steps"] = steps if packed else 0
            of["lengths"] = None
            if length_bytes:
                kind = {4: (ctypes.c_int32, torch.int32), 8: (ctypes.c_int64, torch.int64)}[length_bytes]
                of["lengths"] = torch.frombuffer((kind[0] * batch).from_address(a["lengths"]), dtype=kind[1])
        return found

    def _gradients_of(self, *given):
        """Outputs; and the gradients, if there are seeds. In a thread of its own: an operator runs where nothing is recorded."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return pool.submit(self._gradients, *given).result()

    def _gradients(self, a, direction, biases, *seeds):
        zeros = torch.zeros(self.sizes[2], self.sizes[1], dtype=torch.float64)
        c0 = a["cells"][0] if "cells" in a and a["lengths"] is None else a.get("c0", zeros)
        given = [a["x"], a.get("h0", zeros), c0, a["w_ih"], a["w_hh"], *biases]
        with torch.enable_grad():
            given = [tensor.detach().clone().requires_grad_() for tensor in given]
            x, h0, c0, *weights = given
            unused = [torch.zeros_like(w) for w in weights]  # of the other direction
            both = (weights, unused) if direction == 0 else (unused, weights)
            states = [torch.stack([s, s]) for s in (h0, c0)]
            y, *finals = recurrent_layer.formula(self.cell, x, *states, a["lengths"], [*both[0], *both[1]], 2, a["steps"])
            outputs = [y.chunk(2, -1)[direction], *(state[direction] for state in finals)]
            if seeds:
                loss = sum((one * seed).sum() for one, seed in zip(outputs, seeds))
                return outputs, torch.autograd.grad(loss, given, allow_unused=True)
        return outputs, None

    def _replayed(self, arrays, has_seeds):
        """Of all layers: the arrays, the outputs, and the gradients of x, h0, c0 and weights."""
        assert len(arrays) == self.layers and (arrays[0]["workspace"] or self.forward_bytes == 0)
        assert self.stash == "replay" or not any(a.get("kept") or a.get("cells") for a in arrays)
        of = [self._tensors_of([a], *(self.sizes if layer == 0 else (self.sizes[1], *self.sizes[1:])))[0] for layer, a in enumerate(arrays)]
        zeros = torch.zeros(self.sizes[2], self.sizes[1], dtype=torch.float64)
        states = [torch.stack([a.get(name, zeros) for a in of]) for name in ("h0", "c0")]
        no_bias = torch.zeros(len(of[0]["w_hh"]), dtype=torch.float64)
        weights = [a.get(name, no_bias) for a in of for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
        given = [of[0]["x"], *states, *weights]

        def compute():
            with torch.enable_grad():
                tensors = [tensor.detach().clone().requires_grad_() for tensor in given]
                x = tensors[0].flip(0) if self.is_reverse else tensors[0]
                y, *finals = recurrent_layer._stack_formula(self.cell, x, *tensors[1:3], tensors[3:], self.layers)
                outputs = [y.flip(0) if self.is_reverse else y, *finals]
                if not has_seeds:
                    return outputs, None
                seeds = [of[-1]["dy"], *(torch.stack([a.get(name, zeros) for a in of]) for name in ("dhn", "dcn"))]
                loss = sum((one * seed).sum() for one, seed in zip(outputs, seeds))
                return outputs, torch.autograd.grad(loss, tensors, allow_unused=True)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            return of, *pool.submit(compute).result()

    def _replay(self, arrays, is_backward):
        arrays = [{name: getattr(a, name) for name, _ in a._fields_} for a in arrays]
        of, outputs, gradients = self._replayed(arrays, is_backward)
        if not is_backward:
            of[-1]["y"].copy_(outputs[0].detach())
            for name, states in zip(("hn", "cn"), outputs[1:]):
                for a, state in zip(of, states):
                    a[name].copy_(state.detach())
            if "kept" in of[0]:
                of[0]["kept"].fill_(7)
            return
        assert "kept" not in of[0] or torch.all(of[0]["kept"] == 7), "what forward has kept is no longer there"
        x, h0, c0, *weights = gradients
        if "dx" in of[0]:
            of[0]["dx"].copy_(x)
        for layer, a in enumerate(of):
            for name, states in (("dh0", h0), ("dc0", c0)):
                if name in a:
                    a[name].copy_(states[layer])
            for name, gradient in zip(("dw_ih", "dw_hh", "db", "db_hh"), weights[4 * layer :]):
                if name in ("dw_ih", "dw_hh") and name in a:
                    gradient = gradient.view(self.gates, self.sizes[1], -1)
                    a[name].fill_(7)[:, : gradient.shape[1], : gradient.shape[2]] = gradient
                elif name in a:
                    a[name].copy_(gradient)

    def forward(self, stream, arrays):
        if self.stash in ("replay", "none"):
            return self._replay(arrays, False)
        for direction, a in enumerate(self._of(arrays)):
            assert arrays[direction]["workspace"]
            keeps = "kept" in a
            assert keeps or (self.mask is None and "cells" not in a)
            has_cells = keeps and self.stash == "gates"
            of_c = ("cn", "cells")[: 2 if has_cells else 1] if self.cell == "lstm" else ()
            assert all(name in a for name in ("x", "w_ih", "w_hh", "y", "hn", *of_c))
            zeros = torch.zeros(len(a["w_hh"]), dtype=torch.float64)
            biases = torch.stack([a.get("b_ih", zeros), a.get("b_hh", zeros)])
            if self.cell == "lstm" and has_cells:
                a["cells"].zero_()
                if a["lengths"] is None:
                    a["cells"][0] = a.get("c0", 0)
            for name, tensor in zip(("y", "hn", "cn"), self._gradients_of(a, direction, biases)[0]):
                a[name].copy_(tensor.detach())
            if keeps:
                a["kept"].fill_(7)
            if has_cells:
                a["kept"][: biases.numel()] += biases.flatten()  # kernels have them in the gates

    def backward(self, stream, arrays):
        if self.stash == "replay":
            return self._replay(arrays, True)
        for direction, a in enumerate(self._of(arrays)):
            if self.stash == "gates":
                biases = a["kept"][: 2 * len(a["w_hh"])].view(2, -1) - 7
                assert torch.all(biases.abs() < 3), "what forward has kept is no longer there"
                a["kept"].fill_(0)
            else:
                assert "kept" not in a or torch.all(a["kept"] == 7), "what forward has kept is no longer there"
                zeros = torch.zeros(len(a["w_hh"]), dtype=torch.float64)
                biases = torch.stack([a.get("b_ih", zeros), a.get("b_hh", zeros)])
            _, gradients = self._gradients_of(a, direction, biases, a["dy"], a.get("dhn", 0), a.get("dcn", 0))
            for name, gradient in zip(("dx", "dh0", "dc0", "dw_ih", "dw_hh", "db", "db_hh"), gradients):
                if name in a and name == "dx" and direction == 1:
                    a[name].add_(gradient)
                elif name in a:
                    a[name].copy_(gradient if name != "dw_hh" or self.mask is None else gradient * self.mask)


class WithoutKernels(unittest.TestCase):
    """Everything but these, on the CPU."""

    device, dtypes = "cpu", (torch.float64,)

    def setUp(self):
        for module, name, value in (
            (nn, "_is_on_device", lambda _: True),
            (recurrent_layer, "_context", lambda _: mock.MagicMock()),
            (recurrent_layer, "_stream", lambda: 0),
            (recurrent_layer, "_is_capturing", lambda: False),
            (recurrent_layer, "_LAYERS", collections.OrderedDict()),
            (recurrent_layer, "_LIBRARIES", {}),
            (recurrent_layer, "PRECISIONS", {torch.float64: "fp64"}),
            (api, "Training", FakeTraining),
            (api.Matrix, "dense", lambda values: values.double()),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnAGpu(unittest.TestCase):
    device, dtypes = "cuda", (torch.float16, torch.bfloat16)

    def setUp(self):
        """Without cuDNN, which is faster at many of these sizes."""
        without = torch.backends.cudnn.flags(enabled=False)
        without.__enter__()
        self.addCleanup(without.__exit__, None, None, None)

    def tearDown(self):
        recurrent_layer.check(torch.device("cuda", torch.cuda.current_device()))


def pair(dtype, device, *sizes, kind="LSTM", **options):
    """onchip's and torch's in float64, with the same weights."""
    torch.manual_seed(1)
    fast = getattr(onchip, kind)(*sizes, **options).to(device=device, dtype=dtype)
    exact = getattr(torch.nn, kind)(*sizes, **options).to(device=device, dtype=torch.float64)
    exact.load_state_dict(fast.state_dict())
    return fast, exact


def padded(module, input, hx, lengths):
    """torch's with lengths, as onchip's."""
    if lengths is None:
        return module(input, hx)
    packed = pack_padded_sequence(input, lengths.cpu(), module.batch_first, enforce_sorted=False)
    output, final = module(packed, hx)
    steps = input.shape[1 if module.batch_first else 0]
    return pad_packed_sequence(output, module.batch_first, total_length=steps)[0], final


def flat(found):
    """Of a module's output and final states a list."""
    output, final = found
    return [output, final] if torch.is_tensor(final) else [output, *final]


def gradients_of(module, input, hx, seeds, lengths=None):
    """Outputs, and the gradients of input, states (a tuple, of a GRU too) and parameters of a loss that weighs every output
    otherwise."""
    is_gru = isinstance(module, torch.nn.GRU)
    hx = hx[:1] if is_gru and hx is not None else hx
    tensors = [input, *(hx or ())]
    for tensor in tensors:
        tensor.requires_grad_()
    hx = hx[0] if is_gru and hx is not None else hx
    if isinstance(module, (onchip.LSTM, onchip.GRU)):
        outputs = flat(module(input, hx) if lengths is None else module(input, hx, lengths=lengths))
    else:
        outputs = flat(padded(module, input, hx, lengths))
    loss = sum((one * seed.to(one.dtype)).double().sum() for one, seed in zip(outputs, seeds))
    found = torch.autograd.grad(loss, [*tensors, *module.parameters()])
    names = ["x", "h0", "c0"][: len(tensors)] + [name for name, _ in module.named_parameters()]
    return dict(zip(("y", "hn", "cn"), outputs)), dict(zip(names, found))


def given_to(module, shape, with_states, device):
    """Input of a shape, states or None, and seeds, of the module's type."""
    dtype = module.weight_hh_l0.dtype
    batch = [] if len(shape) == 2 else [shape[0 if module.batch_first else 1]]
    directions = 2 if module.bidirectional else 1
    state = (module.num_layers * directions, *batch, module.hidden_size)

    def values(*shape):
        return torch.randn(*shape, device=device, dtype=torch.float64).to(dtype)

    # Gates that saturate have no gradient in 16 bits; so, inputs whose products with the weights are of order 1.
    scale = min(1.0, (module.hidden_size / shape[-1]) ** 0.5)
    input, hx = scale * values(*shape), (values(*state), values(*state)) if with_states else None
    return input, hx, (values(*shape[:-1], directions * module.hidden_size), values(*state), values(*state))


def exact_gradients(exact, input, hx, seeds, lengths=None, cudnn=False):
    with torch.backends.cudnn.flags(enabled=cudnn):  # which has no gradients of a module that only evaluates
        hx = None if hx is None else tuple(state.detach().double() for state in hx)
        return gradients_of(exact, input.detach().double(), hx, seeds, lengths)


def errors(got, wanted):
    """Of every output and gradient, relative to its norm."""
    return {
        name: ((one[name].double() - other[name]).norm() / other[name].norm().clamp_min(1e-30)).item()
        for one, other in zip(got, wanted)
        for name in one
    }


class Same:
    """Mixed into a test case: onchip's outputs and gradients are torch's."""

    kinds = ("LSTM", "GRU")

    def same(self, fast, exact, shape, with_states, lengths=None):
        """shape: of the input."""
        dtype = fast.weight_hh_l0.dtype
        input, hx, seeds = given_to(fast, shape, with_states, self.device)
        wanted = exact_gradients(exact, input, hx, seeds, lengths)
        got = gradients_of(fast, input, hx, seeds, lengths)
        self.assertTrue(fast.explain().startswith("on the chip"), fast.explain())
        for one, other in zip(got, wanted):
            self.assertEqual(one.keys(), other.keys())
            for name in one:
                self.assertEqual(one[name].shape, other[name].shape, name)
                self.assertEqual(one[name].dtype, dtype, name)
        for name, error in errors(got, wanted).items():
            self.assertLess(error, TOLERANCE[dtype], name)
        return got
