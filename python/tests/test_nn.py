# SPDX-License-Identifier: Apache-2.0
"""onchip.LSTM, GRU and replace beside torch's: on the CPU with a layer that computes from the pointers it is given, in
double precision; on a GPU with the kernels."""
import copy
import ctypes
import io
import itertools
import random
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("no torch") from None

import onchip
from onchip import api, nn
from torch.nn.utils.rnn import pack_padded_sequence

TOLERANCE = {torch.float16: 3e-3, torch.bfloat16: 2e-2, torch.float64: 1e-9}


class FakeTraining:
    """api.Training in fp64 on the CPU."""

    kept_bytes, workspace_bytes, plan = 64, 64, "fake"

    def __init__(self, cell, precision, input, hidden, batch, steps):
        assert (cell, precision) == ("lstm", "fp64")
        if hidden > 64:
            raise api.DoesNotFit(f"{hidden} units do not fit")
        self.sizes, self.biases = (input, hidden, batch, steps), {}

    def _of(self, arrays):
        input, hidden, batch, steps = self.sizes
        state, each, rows = (batch, hidden), (steps, batch, hidden), 4 * hidden
        shapes = {"x": (steps, batch, input), "w_ih": (rows, input), "w_hh": (rows, hidden), "b_ih": (rows,),
                  "b_hh": (rows,), "h0": state, "c0": state, "dy": each, "dhn": state, "dcn": state,
                  "states": (steps + 1, *state), "cells": (steps + 1, *state), "db": (rows,), "kept": (8,)}  # fmt: skip
        for name in ("x", "w_ih", "w_hh", "h0", "c0"):
            shapes["d" + name] = shapes[name]
        found = {}
        for name, shape in shapes.items():
            if arrays.get(name):
                count = torch.Size(shape).numel()
                buffer = (ctypes.c_double * count).from_address(arrays[name])
                found[name] = torch.frombuffer(buffer, dtype=torch.float64).view(shape)
        return found

    def forward(self, stream, **arrays):
        assert arrays["workspace"]
        a = self._of(arrays)
        assert all(name in a for name in ("x", "w_ih", "w_hh", "states", "cells", "kept"))
        with torch.no_grad():
            a["states"][0], a["cells"][0] = a.get("h0", torch.zeros(())), a.get("c0", torch.zeros(()))
            for t in range(len(a["x"])):
                h, c = a["states"][t], a["cells"][t]
                y, _, cn = nn._formula(a["x"][t : t + 1], h, c, a["w_ih"], a["w_hh"], a.get("b_ih"), a.get("b_hh"))
                a["states"][t + 1], a["cells"][t + 1] = y[0], cn
            # Kernels have them in the gates.
            self.biases[arrays["kept"]] = [None if a.get(name) is None else a[name].clone() for name in ("b_ih", "b_hh")]
            a["kept"].fill_(7)

    def backward(self, stream, **arrays):
        a = self._of(arrays)
        assert torch.all(a["kept"] == 7), "what forward has kept is no longer there"
        a["kept"].fill_(0)
        biases = [torch.zeros(len(a["w_hh"]), dtype=torch.float64) if bias is None else bias for bias in self.biases[arrays["kept"]]]
        inputs = [a["x"], a["states"][0], a["cells"][0], a["w_ih"], a["w_hh"], *biases]
        with torch.enable_grad():
            inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
            y, h, c = nn._formula(*inputs)
            loss = (y * a["dy"]).sum() + (h * a.get("dhn", 0)).sum() + (c * a.get("dcn", 0)).sum()
            gradients = torch.autograd.grad(loss, inputs)
        for name, gradient in zip(("dx", "dh0", "dc0", "dw_ih", "dw_hh", "db"), gradients):
            if name in a:
                a[name].copy_(gradient)


def pair(dtype, device, *sizes, **options):
    """onchip's and torch's in float64, with the same weights."""
    torch.manual_seed(1)
    fast = onchip.LSTM(*sizes, **options).to(device=device, dtype=dtype)
    exact = torch.nn.LSTM(*sizes, **options).to(device=device, dtype=torch.float64)
    exact.load_state_dict(fast.state_dict())
    return fast, exact


def gradients_of(module, input, hx, seeds):
    """Outputs, and the gradients of input, states and parameters of a loss that weighs every output otherwise."""
    tensors = [input, *(hx or ())]
    for tensor in tensors:
        tensor.requires_grad_()
    output, final = module(input, hx)
    outputs = (output, *final)
    loss = sum((one * seed.to(one.dtype)).double().sum() for one, seed in zip(outputs, seeds))
    found = torch.autograd.grad(loss, [*tensors, *module.parameters()])
    names = ["x", "h0", "c0"][: len(tensors)] + [name for name, _ in module.named_parameters()]
    return dict(zip(("y", "hn", "cn"), outputs)), dict(zip(names, found))


class SameGradients:
    device, dtypes = "cpu", (torch.float64,)

    def same(self, fast, exact, shape, with_states):
        """shape: of the input."""
        dtype = fast.weight_hh_l0.dtype
        batch = [] if len(shape) == 2 else [shape[0 if fast.batch_first else 1]]
        directions = 2 if fast.bidirectional else 1
        state = (fast.num_layers * directions, *batch, fast.hidden_size)

        def values(*shape):
            return torch.randn(*shape, device=self.device, dtype=torch.float64).to(dtype)

        # Gates that saturate have no gradient in 16 bits; so, inputs whose products with the weights are of order 1.
        scale = min(1.0, (fast.hidden_size / shape[-1]) ** 0.5)
        input, hx = scale * values(*shape), (values(*state), values(*state)) if with_states else None
        seeds = values(*shape[:-1], directions * fast.hidden_size), values(*state), values(*state)
        exact_hx = None if hx is None else tuple(state.double() for state in hx)
        with torch.backends.cudnn.flags(enabled=False):  # which has no gradients of a module that only evaluates
            wanted = gradients_of(exact, input.double().clone(), exact_hx, seeds)
        got = gradients_of(fast, input, hx, seeds)
        self.assertTrue(fast.explain().startswith("on the chip"), fast.explain())
        for one, other in zip(got, wanted):
            self.assertEqual(one.keys(), other.keys())
            for name in one:
                self.assertEqual(one[name].shape, other[name].shape, name)
                self.assertEqual(one[name].dtype, dtype, name)
                error = (one[name].double() - other[name]).norm() / other[name].norm().clamp_min(1e-30)
                self.assertLess(error.item(), TOLERANCE[dtype], name)
        return got

    def test_layers_directions_states_and_shapes(self):
        for dtype, options in itertools.product(
            self.dtypes,
            (
                {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}, {"bias": False},
                {"num_layers": 3, "batch_first": True},
            ),  # fmt: skip
        ):
            for with_states, shape in itertools.product((False, True), ((5, 3, 19), (5, 19))):
                with self.subTest(dtype=dtype, with_states=with_states, shape=shape, **options):
                    self.same(*pair(dtype, self.device, 19, 24, **options), shape, with_states)

    def test_gradients_that_nobody_wants_are_not_computed(self):
        fast, exact = pair(self.dtypes[0], self.device, 19, 24)
        fast.weight_ih_l0.requires_grad_(False)
        fast.bias_hh_l0.requires_grad_(False)
        output, (h, c) = fast(torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0]))
        c.sum().backward()  # neither y nor hn
        for name, parameter in fast.named_parameters():
            self.assertEqual(parameter.grad is None, not parameter.requires_grad, name)

    def test_a_second_backward_computes_the_same(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 24)
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        loss = fast(input)[0].square().sum()
        first = torch.autograd.grad(loss, fast.parameters(), retain_graph=True)
        second = torch.autograd.grad(loss, fast.parameters())
        for one, other in zip(first, second):
            self.assertTrue(torch.equal(one, other))

    def test_changes_in_place_before_backward_are_errors(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 24)
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        for change in (lambda y: y.zero_(), lambda y: fast.weight_hh_l0.data_ptr() and _halve(fast.weight_hh_l0)):
            output, _ = fast(input)
            loss = output.square().sum()
            change(output)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_dropout_is_torchs(self):
        fast, exact = pair(self.dtypes[0], self.device, 19, 24, num_layers=2, dropout=0.5)
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        self.assertFalse(torch.equal(fast(input)[0], fast(input)[0]))
        self.same(fast.eval(), exact.eval(), (5, 3, 19), False)

    def test_nan_reaches_the_gradients(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 24)
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        output, _ = fast(input)
        (output * float("nan")).sum().backward()
        self.assertTrue(all(parameter.grad.isnan().any() for parameter in fast.parameters()))

    def test_what_does_not_fit_takes_torchs_path_and_says_why(self):
        fast, exact = pair(self.dtypes[0], self.device, 3, 4096 if self.device == "cuda" else 65)
        input = torch.randn(2, 3, 3, device=self.device, dtype=self.dtypes[0])
        output, _ = fast(input)
        self.assertRegex(fast.explain(), "^torch: .*(65|4096) units")
        error = (output - exact(input.double())[0]).norm() / output.norm()
        self.assertLess(error.item(), TOLERANCE[self.dtypes[0]])


def _halve(tensor):
    with torch.no_grad():
        tensor.mul_(0.5)


class OnTheCpu(SameGradients, unittest.TestCase):
    """Everything but the kernels."""

    def setUp(self):
        for name, value in {"_is_on_device": lambda _: True, "_context": lambda _: mock.MagicMock(),
                            "_stream": lambda: 0, "_is_capturing": lambda: False, "_LAYERS": {},
                            "_PRECISIONS": {torch.float64: "fp64"}}.items():  # fmt: skip
            patch = mock.patch.object(nn, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(api, "Training", FakeTraining)
        patch.start()
        self.addCleanup(patch.stop)

    def test_gradcheck_and_gradgradcheck(self):
        torch.manual_seed(3)
        fast = onchip.LSTM(3, 4, num_layers=2, bidirectional=True).double()
        given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2, 3), (4, 2, 4), (4, 2, 4))]

        def run(x, h0, c0, *_):
            output, final = fast(x, (h0, c0))
            return (output, *final)

        self.assertTrue(torch.autograd.gradcheck(run, (*given, *fast.parameters())))
        self.assertTrue(torch.autograd.gradgradcheck(run, (*given, *fast.parameters())))
        self.assertTrue(fast.explain().startswith("on the chip"))

    def test_no_kernels_while_a_graph_is_captured(self):
        fast = onchip.LSTM(3, 4).double()
        input = torch.randn(3, 2, 3, dtype=torch.float64)
        with mock.patch.object(nn, "_is_capturing", lambda: True):
            with self.assertRaisesRegex(RuntimeError, "3 steps, batch 2 and sizes 3 and 4.*run it once before"):
                fast(input)
            nn._LAYERS.clear()
        fast(input)

    def test_a_library_that_fails_is_said_once(self):
        fast, exact = pair(torch.float64, "cpu", 3, 4)
        input = torch.randn(3, 2, 3, dtype=torch.float64)
        with mock.patch.object(api, "Training", side_effect=OSError("no libonchip.so")) as made:
            with self.assertWarnsRegex(UserWarning, "takes torch's path: no libonchip.so"):
                fast(input)
            self.assertTrue(torch.equal(fast(input)[0], exact(input)[0]))
            self.assertEqual(made.call_count, 1)
        self.assertEqual(fast.explain(), "torch: no libonchip.so")


class AsTorch(unittest.TestCase):
    """What needs no kernel, on the CPU."""

    def test_constructor_repr_and_state_both_ways(self):
        for ours, torchs in ((onchip.LSTM, torch.nn.LSTM), (onchip.GRU, torch.nn.GRU)):
            options = {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.5}
            fast, plain = ours(3, 4, **options), torchs(3, 4, **options)
            self.assertIsInstance(fast, torchs)
            self.assertEqual(repr(fast), repr(plain))
            self.assertEqual(list(fast.state_dict()), list(plain.state_dict()))
            plain.load_state_dict(fast.state_dict())
            fast.load_state_dict(plain.state_dict())
            buffer = io.BytesIO()
            torch.save(fast, buffer)
            buffer.seek(0)
            loaded = torch.load(buffer, **({"weights_only": False} if torch.__version__ >= "2" else {}))
            input = torch.randn(2, 5, 3)
            for copied in (copy.deepcopy(fast), loaded):
                self.assertIs(type(copied), ours)
                self.assertTrue(torch.equal(copied.eval()(input)[0], plain.eval()(input)[0]))

    def test_other_paths_are_torchs_own(self):
        for options in ({}, {"proj_size": 2}, {"bidirectional": True}):
            fast = onchip.LSTM(3, 4, **options)
            plain = torch.nn.LSTM(3, 4, **options)
            plain.load_state_dict(fast.state_dict())
            self.assertEqual(fast.explain(), "no forward yet")
            input = torch.randn(5, 2, 3)
            packed = pack_padded_sequence(input, [5, 2])
            for one in (input, input[:, 0]):
                self.assertTrue(torch.equal(fast(one)[0], plain(one)[0]))
                self.assertEqual(fast.explain(), "torch: the input is not on a CUDA device")
            self.assertTrue(torch.equal(fast(packed)[0].data, plain(packed)[0].data))
            self.assertEqual(fast.explain(), "torch: the input is a packed sequence")
        self.assertRegex(onchip.GRU(3, 4).explain(), "^torch: .*GRU")

    def test_gradients_of_gradients_on_torchs_path(self):
        fast = onchip.LSTM(3, 4).double()
        input = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda x: fast(x)[0], (input,)))
        self.assertTrue(torch.autograd.gradgradcheck(lambda x: fast(x)[0], (input,)))

    def test_errors_are_torchs(self):
        fast, plain = onchip.LSTM(3, 4), torch.nn.LSTM(3, 4)
        for input, hx in (
            (torch.randn(5, 2, 4), None),
            (torch.randn(5, 2, 3), (torch.randn(2, 2, 4), torch.randn(1, 2, 4))),
            (torch.randn(5, 2, 3), (torch.randn(1, 2, 5), torch.randn(1, 2, 4))),
        ):
            with self.assertRaises(RuntimeError) as wanted:
                plain(input, hx)
            with mock.patch.object(nn, "_is_on_device", lambda _: True), self.assertRaises(RuntimeError) as got:
                fast(input, hx)
            self.assertEqual(str(got.exception), str(wanted.exception))

    def test_replace_keeps_parameters_and_places(self):
        class Own(torch.nn.LSTM):
            pass

        model = torch.nn.ModuleDict({"a": torch.nn.LSTM(3, 4), "b": torch.nn.Sequential(torch.nn.GRU(3, 4)), "c": Own(3, 4)})
        before, state = dict(model.named_parameters()), copy.deepcopy(model.state_dict())
        self.assertIs(onchip.replace(model), model)
        self.assertEqual([type(m) for m in (model["a"], model["b"][0], model["c"])], [onchip.LSTM, onchip.GRU, Own])
        for name, parameter in model.named_parameters():
            self.assertIs(parameter, before[name])
        self.assertTrue(all(torch.equal(state[name], model.state_dict()[name]) for name in state))
        self.assertIs(type(onchip.replace(torch.nn.LSTM(3, 4))), onchip.LSTM)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnAGpu(SameGradients, unittest.TestCase):
    device, dtypes = "cuda", (torch.float16, torch.bfloat16)

    def tearDown(self):
        for layer in nn._LAYERS.values():
            if not isinstance(layer, str):
                layer.check(torch.cuda.current_stream().cuda_stream)

    def test_200_random_shapes(self):
        draw = random.Random(5)
        for number in range(200):
            input, hidden = draw.choice((1, 7, 33, 64, 200)), draw.choice((1, 5, 16, 31, 65, 128, 257, 512))
            steps, batch = draw.choice((1, 2, 17, 64)), draw.choice((1, 2, 3, 8, 17, 33, 64))
            options = {"num_layers": draw.choice((1, 1, 2)), "bidirectional": draw.random() < 0.3,
                       "batch_first": draw.random() < 0.3, "bias": draw.random() < 0.8}  # fmt: skip
            dtype = draw.choice(self.dtypes)
            shape = (batch, steps, input) if options["batch_first"] else (steps, batch, input)
            with self.subTest(number=number, dtype=dtype, shape=shape, hidden=hidden, **options):
                self.same(*pair(dtype, "cuda", input, hidden, **options), shape, draw.random() < 0.5)

    def test_same_bits_in_every_run_with_other_work_beside_it(self):
        fast, _ = pair(torch.float16, "cuda", 512, 512, num_layers=2)
        input = torch.randn(64, 16, 512, device="cuda", dtype=torch.float16)
        other, busy = torch.cuda.Stream(), torch.randn(1024, 1024, device="cuda")

        def run():
            return torch.autograd.grad(fast(input)[0].float().square().sum(), fast.parameters())

        first = run()
        for number in range(20):
            with torch.cuda.stream(other):
                for _ in range(number):
                    busy @ busy
            for one, again in zip(first, run()):
                self.assertTrue(torch.equal(one, again))

    def test_training_with_autocast_and_a_grad_scaler(self):
        torch.manual_seed(1)
        model = torch.nn.ModuleList([torch.nn.LSTM(32, 64, num_layers=2), torch.nn.Linear(64, 1)]).cuda()
        both = [model, onchip.replace(copy.deepcopy(model))]
        input = torch.randn(20, 8, 32, device="cuda")
        target = input.mean(-1, keepdim=True).cumsum(0)
        losses = []
        for lstm, linear in both:
            parameters = [*lstm.parameters(), *linear.parameters()]
            optimizer, scaler = torch.optim.Adam(parameters, 1e-2), torch.cuda.amp.GradScaler()
            of_model = []
            for number in range(30):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = (linear(lstm(input)[0]) - target).square().mean()
                scaled = scaler.scale(loss * float("inf") if number == 5 else loss)
                optimizer.zero_grad()
                scaled.backward()
                before, scale = lstm.weight_hh_l0.clone(), scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if number == 5:  # the scaler has seen infinity or NaN
                    self.assertTrue(torch.equal(before, lstm.weight_hh_l0))
                    self.assertLess(scaler.get_scale(), scale)
                of_model.append(loss.item())
            self.assertEqual(lstm.weight_hh_l0.grad.dtype, torch.float32)
            losses.append(of_model)
        self.assertTrue(both[1][0].explain().startswith("on the chip"))
        self.assertLess(losses[1][-1], 0.5 * losses[1][0])
        self.assertLess(abs(losses[1][-1] - losses[0][-1]), 0.2 * losses[0][0])

    def test_a_graph_of_a_whole_iteration(self):
        torch.manual_seed(1)
        lstm = onchip.LSTM(64, 128, num_layers=2).half().cuda()
        optimizer = torch.optim.SGD(lstm.parameters(), 1e-3)
        input = torch.randn(20, 8, 64, device="cuda", dtype=torch.float16)

        def iterate():
            optimizer.zero_grad(set_to_none=True)
            lstm(input)[0].float().square().mean().backward()
            optimizer.step()

        start = copy.deepcopy(lstm.state_dict())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                iterate()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            iterate()
        batches = [torch.randn_like(input) for _ in range(4)]
        ends = []
        for run in (graph.replay, iterate):
            lstm.load_state_dict(start)
            for batch in batches:
                input.copy_(batch)
                run()
            ends.append([parameter.detach().clone() for parameter in lstm.parameters()])
        for one, other in zip(*ends):
            self.assertTrue(torch.equal(one, other))

    def test_gradients_of_gradients(self):
        fast, exact = pair(torch.float16, "cuda", 19, 24)
        input = torch.randn(5, 3, 19, device="cuda", dtype=torch.float16)
        found = []
        for module, x in ((fast, input.clone()), (exact, input.double())):
            x.requires_grad_()
            with torch.backends.cudnn.flags(enabled=module is fast):  # cuDNN has none
                (slope,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
                found.append(torch.autograd.grad(slope.square().sum(), module.weight_hh_l0)[0].double())
        self.assertLess(((found[0] - found[1]).norm() / found[1].norm()).item(), 2e-2)


if __name__ == "__main__":
    unittest.main()
