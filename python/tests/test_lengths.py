# SPDX-License-Identifier: Apache-2.0
"""onchip.LSTM and GRU with samples of other lengths, as a tensor or packed, beside torch's packed sequences."""
import itertools
import unittest
from unittest import mock

from .training_cases import OnAGpu, Same, WithoutKernels, errors, exact_gradients, flat, pair  # without torch, all is skipped

import onchip
import torch
from onchip import recurrent_layer
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

OPTIONS = ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False})


class Lengths(Same):
    def test_lengths_directions_layers_and_states(self):
        for cell, dtype, options, with_states in itertools.product(self.kinds, self.dtypes, OPTIONS, (False, True)):
            shape = (4, 6, 19) if options.get("batch_first") else (6, 4, 19)
            for number, kind in enumerate((torch.int32, torch.int64)):
                with self.subTest(cell=cell, dtype=dtype, with_states=with_states, kind=kind, **options):
                    lengths = torch.tensor([[2, 6, 1, 5], [3, 1, 2, 5]][number], dtype=kind, device=self.device)
                    self.same(*pair(dtype, self.device, 19, 24, kind=cell, **options), shape, with_states, lengths)

    def test_lengths_that_are_all_full_change_nothing(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 24, bidirectional=True)
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        plain, lengths = fast(input), torch.full((3,), 5, device=self.device)
        for one, other in zip(flat(plain), flat(fast(input, lengths=lengths))):
            self.assertTrue(torch.allclose(one, other, rtol=0, atol=1e-2))

    def test_packed_sequences(self):
        for kind, dtype, options, (is_sorted, lengths), with_states in itertools.product(
            self.kinds, self.dtypes, OPTIONS, ((False, [2, 6, 1, 5]), (True, [5, 3, 3, 1]), (True, [4, 4, 4, 4])), (False, True)
        ):
            with self.subTest(kind=kind, dtype=dtype, with_states=with_states, lengths=lengths, **options):
                fast, exact = pair(dtype, self.device, 19, 24, kind=kind, **options)
                shape = (4, max(lengths), 19) if fast.batch_first else (max(lengths), 4, 19)
                input = torch.randn(shape, device=self.device, dtype=dtype)
                directions = 2 if fast.bidirectional else 1
                hx = tuple(torch.randn(2 if kind == "LSTM" else 1, fast.num_layers * directions, 4, 24, device=self.device, dtype=dtype)) if with_states else None
                seed = torch.randn(sum(lengths), directions * 24, device=self.device, dtype=dtype)
                found = []
                for module, x in ((fast, input.clone()), (exact, input.double())):
                    states = None if hx is None else tuple(state.to(x.dtype).requires_grad_() for state in hx)
                    packed = pack_padded_sequence(x.requires_grad_(), torch.tensor(lengths), fast.batch_first, enforce_sorted=is_sorted)
                    output, *final = flat(module(packed, states if states is None or kind == "LSTM" else states[0]))
                    self.assertIsInstance(output, PackedSequence)
                    loss = (output.data * seed.to(x.dtype)).double().sum() + sum(state.double().square().sum() for state in final)
                    gradients = torch.autograd.grad(loss, [x, *(states or ()), *module.parameters()])
                    found.append((output, [output.data, *final, *gradients]))
                self.assertTrue(fast.explain().startswith("on the chip"), fast.explain())
                for one, other in zip(found[0][0][1:], found[1][0][1:]):
                    self.assertTrue(one is None and other is None or torch.equal(one, other))
                for number, (one, other) in enumerate(zip(found[0][1], found[1][1])):
                    error = (one.double() - other).norm() / other.norm()
                    self.assertLess(error.item(), {torch.float16: 3e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-9), number)

    def test_rows_of_packed_sequences_go_in_as_they_are(self):
        fast, _ = pair(self.dtypes[0], self.device, 3, 4, num_layers=2)
        packed = pack_padded_sequence(torch.randn(6, 4, 3, device=self.device, dtype=self.dtypes[0]), [6, 3, 3, 1])
        with mock.patch.object(recurrent_layer, "forward", wraps=recurrent_layer.forward) as forward:
            output = fast(packed)[0].data
        (first, _), (second, _) = forward.call_args_list
        self.assertEqual(first[1].data_ptr(), packed.data.data_ptr())
        self.assertEqual([given[1].shape for given in (first, second)], [(13, 3), (13, 4)])
        self.assertEqual(output.shape, (13, 4))
        for given in (first, second):
            self.assertEqual((given[4].tolist(), given[7]), ([6, 3, 3, 1], 6))

    def test_all_outputs_of_a_layer_are_written(self):
        """Where others left NaN, and as torch.library.opcheck compares them."""

        def poisoned(tensor, *shape):
            return tensor.new_full(shape[0] if isinstance(shape[0], torch.Size) else shape, float("nan"))

        for cell, dtype, (lengths, rows), directions in itertools.product(
            ("lstm", "gru"), self.dtypes, ((None, 0), ([5, 5], 0), ([2, 4], 0), ([4, 2], 6)), (1, 2)
        ):
            with self.subTest(cell=cell, dtype=dtype, lengths=lengths, rows=rows, directions=directions):
                fast, _ = pair(dtype, self.device, 3, 8, kind=cell.upper(), bidirectional=directions == 2)
                weights = [weight.detach() for weight in fast.parameters()]
                x = torch.randn((rows, 3) if rows else (5, 2, 3), device=self.device, dtype=dtype)
                lengths = None if lengths is None else torch.tensor(lengths, device=self.device)
                given = (cell, x, None, None, lengths, weights, directions, 4 if rows else 0)
                with mock.patch.object(torch.Tensor, "new_empty", poisoned):
                    y, hn, cn, cells, kept = outputs = recurrent_layer.forward(*given)
                    again = recurrent_layer.forward(*given)
                    needs = [True, False, False, *[True] * 4 * directions]
                    found = recurrent_layer.backward(*given, y, cells, kept.clone(), y, hn, None, needs)
                for number, (one, other) in enumerate(zip(outputs, again)):
                    self.assertTrue(torch.equal(one, other), number)  # NaN is equal to nothing
                self.assertFalse(any(one.isnan().any() for one in found if one is not None))

    def test_lengths_that_are_none_are_refused(self):
        fast, _ = pair(self.dtypes[0], self.device, 3, 4)
        input = torch.randn(5, 2, 3, device=self.device, dtype=self.dtypes[0])
        for lengths in ([1.0, 2], torch.tensor([1.0, 2.0]), torch.tensor([1, 2, 3]), torch.tensor([[1, 2]])):
            with self.assertRaisesRegex(ValueError, "a tensor of 2 int32 or int64"):
                fast(input, lengths=lengths)
        for lengths in ([0, 2], [1, 6], [-1, 2]):
            with self.assertRaisesRegex(ValueError, "from 1 to 5, the steps"):
                fast(input, lengths=torch.tensor(lengths))
        with self.assertRaisesRegex(ValueError, "a batch of padded"):
            fast(input[:, 0], lengths=torch.tensor([2]))


class OnTheCpu(Lengths, WithoutKernels):
    def test_gradcheck_and_gradgradcheck(self):
        torch.manual_seed(3)
        fast = onchip.LSTM(2, 3, bidirectional=True).double()
        given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2, 2), (2, 2, 3), (2, 2, 3))]

        def run(x, h0, c0, *_):
            output, final = fast(x, (h0, c0), lengths=torch.tensor([1, 3]))
            return (output, *final)

        self.assertTrue(torch.autograd.gradcheck(run, (*given, *fast.parameters())))
        self.assertTrue(torch.autograd.gradgradcheck(run, (*given, *fast.parameters())))
        self.assertTrue(fast.explain().startswith("on the chip"))

        def run_packed(data, h0, c0, *_):
            output, final = fast(PackedSequence(data, torch.tensor([2, 2, 1])), (h0, c0))
            return (output.data, *final)

        given[0] = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(run_packed, (*given, *fast.parameters())))
        self.assertTrue(torch.autograd.gradgradcheck(run_packed, (*given, *fast.parameters())))
        self.assertTrue(fast.explain().startswith("on the chip"))


class OnTorchsPath(unittest.TestCase):
    def test_lengths_are_packed(self):
        fast, exact = pair(torch.float64, "cpu", 3, 4, bidirectional=True)
        input = torch.randn(5, 2, 3, dtype=torch.float64)
        output, final = fast(input, lengths=torch.tensor([2, 4]))
        self.assertEqual(output.shape, (5, 2, 8))
        self.assertTrue(torch.all(output[2:, 0] == 0) and torch.all(output[4:, 1] == 0))
        alone, _ = exact(input[:2, :1])
        self.assertTrue(torch.allclose(output[:2, :1], alone))


class OnTheGpu(Lengths, OnAGpu):
    def test_a_graph_is_replayed_with_other_lengths(self):
        fast, exact = pair(torch.float16, "cuda", 64, 96, num_layers=2, bidirectional=True)
        input = torch.randn(9, 5, 64, device="cuda", dtype=torch.float16)
        lengths = torch.tensor([3, 9, 1, 4, 4], device="cuda")
        seed = torch.randn(9, 5, 192, device="cuda", dtype=torch.float16)

        def iterate():
            output, (h, c) = fast(input, lengths=lengths)
            loss = (output * seed).float().sum() + h.float().sum() + c.float().sum()
            return output, torch.autograd.grad(loss, list(fast.parameters()))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                iterate()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = iterate()
        ones = torch.ones(4, 5, 96, device="cuda", dtype=torch.float16)
        for others in ([3, 9, 1, 4, 4], [1, 1, 2, 8, 9], [9, 9, 9, 9, 9], [5, 1, 1, 1, 1]):
            lengths.copy_(torch.tensor(others))
            graph.replay()
            output, gradients = exact_gradients(exact, input, None, (seed, ones, ones), lengths)
            names = [name for name, _ in fast.named_parameters()]
            got = ({"y": found[0]}, dict(zip(names, found[1])))
            wanted = ({"y": output["y"]}, {name: gradients[name] for name in names})
            for name, error in errors(got, wanted).items():
                self.assertLess(error, 3e-3, name)

    def test_a_graph_of_a_packed_sequence_is_replayed(self):
        fast, exact = pair(torch.float16, "cuda", 64, 96)
        packed = pack_padded_sequence(torch.randn(9, 5, 64, device="cuda", dtype=torch.float16), [9, 4, 4, 3, 1])
        wanted = exact(packed._replace(data=packed.data.double()))[0].data
        for _ in range(2):
            fast(packed)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = fast(packed)[0].data
        for _ in range(3):
            output.zero_()
            graph.replay()
            self.assertLess(((output - wanted).norm() / wanted.norm()).item(), 3e-3)

    def test_a_length_that_is_none_is_an_error_of_the_next_call(self):
        fast, _ = pair(torch.float16, "cuda", 64, 96)
        input = torch.randn(9, 2, 64, device="cuda", dtype=torch.float16)
        fast(input, lengths=torch.tensor([3, 10], device="cuda"))
        with self.assertRaisesRegex(onchip.CudaError, "not from 1 to its steps"):
            fast.check()
        fast(input, lengths=torch.tensor([3, 9], device="cuda"))
        fast.check()


if __name__ == "__main__":
    unittest.main()
