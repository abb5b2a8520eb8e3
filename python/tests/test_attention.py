# SPDX-License-Identifier: Apache-2.0
"""onchip.MLPAttention and mlp_scores beside torch's operations in double precision: on the CPU with and without what stands for the
kernels, and on a GPU with them."""
import copy
import ctypes
import itertools
import math
import unittest
import warnings
from unittest import mock

from .training_cases import TOLERANCE  # without torch, all is skipped

import onchip
import torch
from onchip import api, attention, nn, recurrent_layer

SIZES = [(2, 3, 5, 7), (1, 1, 1, 1), (3, 1, 33, 32), (2, 17, 3, 100)]  # batch, queries, keys, hidden


def drawn(batch, queries, keys, hidden, dtype, device):
    """q, k, v and the gradients of the scores."""
    torch.manual_seed(1)
    shapes = (batch, queries, hidden), (batch, keys, hidden), (hidden,), (batch, queries, keys)
    return [torch.randn(*shape, dtype=torch.float64).to(device, dtype) for shape in shapes]


def gradients(function, q, k, v, dscores):
    given = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    scores = function(*given)
    return [scores.detach(), *torch.autograd.grad(scores, given, dscores.to(scores.dtype))]


def fake(which, stream, precision, batch, queries, keys, hidden, **arrays):
    """api.attention in fp64 on the CPU."""
    assert precision == "fp64" and (which == "forward" or arrays["workspace"])
    shapes = {"q": (batch, queries, hidden), "k": (batch, keys, hidden), "v": (hidden,), "scores": (batch, queries, keys)}
    shapes.update({"d" + name: shape for name, shape in shapes.items()})

    def at(name):
        shape = shapes[name]
        buffer = (ctypes.c_double * math.prod(shape)).from_address(arrays[name])
        return torch.frombuffer(buffer, dtype=torch.float64).view(shape)

    if which == "forward":
        at("scores").copy_(attention.formula(at("q"), at("k"), at("v")))
        return
    with torch.enable_grad():
        _, *found = gradients(attention.formula, at("q"), at("k"), at("v"), at("dscores"))
    for name, gradient in zip(("dq", "dk", "dv"), found):
        if arrays[name]:
            at(name).copy_(gradient)


class Scores:
    """Mixed into a test case: the scores and their gradients are those of torch's operations in double precision."""

    def same(self, ours, exact, dtype):
        for name, one, other in zip(("scores", "dq", "dk", "dv"), ours, exact):
            self.assertEqual((one.shape, one.dtype), (other.shape, dtype), name)
            error = (one.double() - other).norm() / other.norm()
            self.assertLess(error.item(), {**TOLERANCE, torch.float32: 1e-5}[dtype], name)

    def test_scores_and_gradients_are_those_of_the_formula(self):
        for sizes, dtype in itertools.product(SIZES, self.dtypes):
            with self.subTest(sizes=sizes, dtype=dtype):
                given = drawn(*sizes, dtype, self.device)
                exact = gradients(attention.formula, *(tensor.double() for tensor in given))
                self.same(gradients(onchip.mlp_scores, *given), exact, dtype)

    def test_any_strides_and_some_gradients(self):
        dtype = self.dtypes[0]
        q, k, v, dscores = drawn(4, 6, 5, 24, dtype, self.device)
        q, k, dscores = q.transpose(0, 1).contiguous().transpose(0, 1), k[:, ::2], dscores[:, :, ::2]
        exact = gradients(attention.formula, *(tensor.double() for tensor in (q, k, v, dscores)))
        self.same(gradients(onchip.mlp_scores, q, k, v, dscores), exact, dtype)
        for wanted in range(3):
            given = [tensor.detach().requires_grad_(number == wanted) for number, tensor in enumerate((q, k, v))]
            (found,) = torch.autograd.grad(onchip.mlp_scores(*given), given[wanted], dscores)
            error = (found.double() - exact[1 + wanted]).norm() / exact[1 + wanted].norm()
            self.assertLess(error.item(), TOLERANCE[dtype])
        with torch.no_grad():
            self.assertFalse(onchip.mlp_scores(*given).requires_grad)

    def test_gradients_of_gradients(self):
        q, k, v, dscores = drawn(2, 3, 4, 8, torch.float64, self.device)

        def penalty(function, dtype):
            given = [tensor.to(dtype).requires_grad_() for tensor in (q, k, v)]
            found = torch.autograd.grad(function(*given), given, dscores.to(dtype), create_graph=True)
            return torch.autograd.grad(sum((one * one).sum() for one in found), given)

        dtype = self.dtypes[-1]
        for one, other in zip(penalty(onchip.mlp_scores, dtype), penalty(attention.formula, torch.float64)):
            self.assertLess(((one.double() - other).norm() / other.norm()).item(), 4 * {**TOLERANCE, torch.float32: 1e-5}[dtype])

    def test_the_module_is_softmax_of_the_scores(self):
        for dtype in self.dtypes:
            torch.manual_seed(2)
            module = onchip.MLPAttention(5, 6, 16).to(self.device, dtype)
            exact = copy.deepcopy(module).double()
            queries, keys, values = (torch.randn(2, *size, device=self.device, dtype=dtype) for size in ((3, 5), (4, 6), (4, 9)))
            mask = torch.tensor([[True, True, False, True], [False, True, True, True]], device=self.device)
            for given, of_mask in ((None, None), (values, mask), (values, mask.unsqueeze(1).expand(2, 3, 4))):
                context, weights = module(queries, keys, given, mask=of_mask)
                scores = attention.formula(exact.query_projection(queries.double()), exact.key_projection(keys.double()), exact.v)
                if of_mask is not None:
                    self.assertTrue(torch.all(weights[~mask.unsqueeze(1).expand(2, 3, 4)] == 0))
                    scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
                expected = scores.softmax(-1) @ (keys if given is None else given).double()
                self.assertEqual(context.dtype, dtype)
                self.assertLess(((context.double() - expected).norm() / expected.norm()).item(), 4 * {**TOLERANCE, torch.float32: 1e-5}[dtype])
                context.sum().backward()
                self.assertTrue(all(parameter.grad is not None for parameter in module.parameters()))


class WithoutKernels(Scores, unittest.TestCase):
    device, dtypes = "cpu", (torch.float64,)

    def setUp(self):
        attention._has_kernels.cache_clear()
        self.calls = mock.Mock(side_effect=fake)
        for module, name, value in (
            (nn, "_is_on_device", lambda _: True),
            (recurrent_layer, "_context", lambda _: mock.MagicMock()),
            (recurrent_layer, "_stream", lambda: 0),
            (attention, "PRECISIONS", {torch.float64: "fp64"}),
            (api, "attention", self.calls),
            (api, "attention_workspace_bytes", lambda *_: 8),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def tearDown(self):
        self.assertGreater(self.calls.call_count, 1)  # a test of torch's operations would show nothing


class OnTheCpu(Scores, unittest.TestCase):
    """By torch's operations."""

    device, dtypes = "cpu", (torch.float64, torch.float32)

    def test_numerical_gradients(self):
        q, k, v, _ = drawn(2, 3, 4, 5, torch.float64, "cpu")
        given = [tensor.requires_grad_() for tensor in (q, k, v)]
        self.assertTrue(torch.autograd.gradcheck(onchip.mlp_scores, given))
        self.assertTrue(torch.autograd.gradgradcheck(onchip.mlp_scores, given))

    def test_what_is_wrong_is_said(self):
        q, k, v, _ = drawn(2, 3, 4, 5, torch.float32, "cpu")
        for wrong in ((q[0], k, v), (q, k[:1], v), (q, k[..., :4], v), (q, k, v[:4]), (q, k, v.unsqueeze(0))):
            with self.assertRaisesRegex(ValueError, r"expected \[batch, queries, hidden\], \[batch, keys, hidden\] and \[hidden\]"):
                onchip.mlp_scores(*wrong)
        module, mask = onchip.MLPAttention(5, 5, 7), torch.ones(2, 4, dtype=torch.bool)
        for given, words in (
            ((q[0], k), "queries have 2 dimensions; expected 3"),
            ((q[..., :4], k), r"queries have shape \[2, 3, 4\]; expected \[2, 3, 5\]"),
            ((q, k[:1]), r"keys have shape \[1, 4, 5\]; expected \[2, 4, 5\]"),
            ((q, k, k[:, 1:]), r"values have shape \[2, 3, 5\]; expected \[2, 4, 5\]"),
            ((q, k, k, mask.float()), "the mask is of torch.float32"),
            ((q, k, k, mask[:, 1:]), r"expected bool and \[2, 4\] or \[2, 3, 4\]"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                module(*given)

    def test_nothing_is_no_error(self):
        for sizes in ((0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)):
            q, k, v, dscores = drawn(*sizes, torch.float32, "cpu")
            self.assertEqual(onchip.mlp_scores(q, k, v).shape, dscores.shape)

    def test_the_module_is_a_module_as_others(self):
        module = onchip.MLPAttention(5, 6, 7, dtype=torch.float64)
        self.assertEqual({name: list(p.shape) for name, p in module.named_parameters()},
                         {"v": [7], "query_projection.weight": [7, 5], "key_projection.weight": [7, 6]})  # fmt: skip
        self.assertTrue(all(p.dtype == torch.float64 and p.abs().max() <= 1 for p in module.parameters()))
        self.assertIn("MLPAttention(\n  5, 6, 7", repr(module))
        onchip.MLPAttention(5, 6, 7).load_state_dict(module.state_dict())

    @unittest.skipUnless(recurrent_layer._HAS_OPERATORS, "no torch.compile that is tried here")
    def test_torch_compile_takes_all_of_the_module(self):
        module = onchip.MLPAttention(5, 6, 7)
        given = torch.randn(2, 3, 5), torch.randn(2, 4, 6), torch.randn(2, 4, 9), torch.ones(2, 4, dtype=torch.bool)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        for one, other in zip(compiled(*given), module(*given)):
            self.assertTrue(torch.allclose(one, other))

    def test_without_a_library_torch_computes_and_says_why(self):
        q, k, v, _ = drawn(2, 3, 4, 5, torch.float32, "cpu")
        self.addCleanup(attention._has_kernels.cache_clear)
        attention._has_kernels.cache_clear()
        with mock.patch.object(nn, "_is_on_device", lambda _: True), \
             mock.patch.object(recurrent_layer, "_context", lambda _: mock.MagicMock()), \
             mock.patch.object(recurrent_layer, "_stream", lambda: 0), \
             mock.patch.object(api, "attention", side_effect=OSError("no libonchip.so")):  # fmt: skip
            with self.assertWarnsRegex(UserWarning, "torch's operations: no libonchip.so"):
                found = onchip.mlp_scores(q, k, v)
            with warnings.catch_warnings():  # once
                warnings.simplefilter("error")
                onchip.mlp_scores(q, k, v)
        self.assertTrue(torch.equal(found, attention.formula(q, k, v)))


class OfTheLibrary(unittest.TestCase):
    """What needs libonchip.so with CUDA, but no GPU."""

    def setUp(self):
        try:
            api.attention_workspace_bytes("fp16", 1, 1, 1, 1)
        except (OSError, api.CudaError) as problem:
            self.skipTest(str(problem))

    def test_bytes_and_refusals(self):
        self.assertEqual(api.attention_workspace_bytes("bf16", 64, 50, 100, 512), 4 * 64 * 512)
        for words, given in (("'hidden' is 0; expected 1 to", ("fp16", 1, 1, 1, 0)), ("unknown precision 'fp8'", ("fp8", 1, 1, 1, 1))):
            with self.assertRaisesRegex(api.InputError, words):
                api.attention_workspace_bytes(*given)
        with self.assertRaisesRegex(api.InputError, "'scores' is null"):
            api.attention("forward", 0, "fp16", 1, 1, 1, 1, q=16, k=16, v=16)
        with self.assertRaisesRegex(api.InputError, "'workspace' is null"):
            api.attention("backward", 0, "fp16", 1, 1, 1, 1, q=16, k=16, v=16, dscores=16)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnAGpu(Scores, unittest.TestCase):
    device, dtypes = "cuda", (torch.float16, torch.bfloat16, torch.float32)

    def setUp(self):
        for dtype in self.dtypes:
            self.assertTrue(attention._has_kernels(torch.device("cuda", torch.cuda.current_device()), dtype))

    def test_large_and_saturated(self):
        for sizes, scale, dtype in itertools.product(((16, 70, 90, 512), (64, 1, 100, 1024), (2, 200, 50, 513)), (1, 20), self.dtypes):
            with self.subTest(sizes=sizes, scale=scale, dtype=dtype):
                q, k, v, dscores = drawn(*sizes, dtype, "cuda")
                given = scale * q, scale * k, v, dscores
                exact = gradients(attention.formula, *(tensor.double() for tensor in given))
                found = gradients(onchip.mlp_scores, *given)
                self.same(found, exact, dtype)
                for one, other in zip(found, gradients(onchip.mlp_scores, *given)):
                    self.assertTrue(torch.equal(one, other))

    def test_not_a_number_stays_in_its_row(self):
        q, k, v, _ = drawn(2, 9, 40, 64, torch.float16, "cuda")
        q[1, 3, 5], k[0, 7, 2] = math.nan, math.inf
        expected = attention.formula(q.double(), k.double(), v.double())
        found = onchip.mlp_scores(q, k, v)
        self.assertTrue(torch.equal(found.isnan(), expected.isnan()))
        self.assertLess((found.double() - expected).nan_to_num().abs().max().item(), 0.05)

    def test_the_intermediate_is_never_there(self):
        batch, queries, keys, hidden = 32, 64, 100, 512
        q, k, v, dscores = drawn(batch, queries, keys, hidden, torch.float16, "cuda")
        gradients(onchip.mlp_scores, q, k, v, dscores)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        gradients(onchip.mlp_scores, q, k, v, dscores)
        peak = torch.cuda.max_memory_allocated() - before
        of_gradients = 2 * (q.numel() + k.numel() + hidden + 2 * dscores.numel()) + 4 * batch * hidden
        self.assertLess(peak, of_gradients + 2**22)  # which torch rounds up
        self.assertLess(20 * peak, 2 * batch * queries * keys * hidden)

    def test_a_graph_replays_with_other_values(self):
        q, k, v, dscores = drawn(4, 70, 33, 100, torch.bfloat16, "cuda")
        gradients(onchip.mlp_scores, q, k, v, dscores)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = gradients(onchip.mlp_scores, q, k, v, dscores)
        q.copy_(torch.randn_like(q))
        graph.replay()
        for one, other in zip(found, gradients(onchip.mlp_scores, q, k, v, dscores)):
            self.assertTrue(torch.equal(one, other))

    def test_autocast(self):
        module = onchip.MLPAttention(32, 48, 64).cuda()
        queries, keys = torch.randn(3, 5, 32, device="cuda"), torch.randn(3, 7, 48, device="cuda")
        expected, _ = copy.deepcopy(module).double().cpu()(queries.double().cpu(), keys.double().cpu())
        for dtype in (torch.float16, torch.bfloat16):
            with torch.autocast("cuda", dtype=dtype), mock.patch.object(api, "attention", side_effect=api.attention) as calls:
                context, _ = module(queries, keys)
            self.assertEqual(calls.call_args.args[2], attention.PRECISIONS[dtype])
            self.assertLess(((context.double().cpu() - expected).norm() / expected.norm()).item(), 4 * TOLERANCE[dtype])
            context.float().sum().backward()
            self.assertEqual(module.v.grad.dtype, torch.float32)

    def test_a_step_at_a_time_and_all_at_once_are_the_same(self):
        q, k, v, _ = drawn(8, 20, 60, 512, torch.float16, "cuda")
        steps = [onchip.mlp_scores(q[:, step : step + 1], k, v) for step in range(20)]
        difference = (torch.cat(steps, 1).float() - onchip.mlp_scores(q, k, v).float()).abs().max().item()
        self.assertLess(difference, 0.05)  # sums in another order


if __name__ == "__main__":
    unittest.main()
