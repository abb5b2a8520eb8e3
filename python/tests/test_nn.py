# SPDX-License-Identifier: Apache-2.0
"""onchip.LSTM, GRU and replace beside torch's: on the CPU without the kernels, in double precision; on a GPU with them."""
import copy
import io
import itertools
import unittest
import warnings
from unittest import mock

from .training_cases import TOLERANCE, OnAGpu, Same, WithoutKernels, flat, given_to, pair  # without torch, all is skipped

import onchip
import torch
from onchip import api, nn, recurrent_layer
from torch.nn.utils.rnn import pack_padded_sequence


class SameGradients(Same):
    def test_layers_directions_states_and_shapes(self):
        for kind, dtype, options in itertools.product(
            self.kinds, self.dtypes,
            (
                {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}, {"bias": False},
                {"num_layers": 3, "batch_first": True},
            ),  # fmt: skip
        ):
            for with_states, shape in itertools.product((False, True), ((5, 3, 19), (5, 19))):
                with self.subTest(kind=kind, dtype=dtype, with_states=with_states, shape=shape, **options):
                    self.same(*pair(dtype, self.device, 19, 24, kind=kind, **options), shape, with_states)

    def test_gradients_that_nobody_wants_are_not_computed(self):
        for kind in self.kinds:
            fast, _ = pair(self.dtypes[0], self.device, 19, 24, kind=kind)
            fast.weight_ih_l0.requires_grad_(False)
            fast.bias_hh_l0.requires_grad_(False)
            last = flat(fast(torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])))[-1]
            last.sum().backward()  # not y, and of an LSTM not hn
            for name, parameter in fast.named_parameters():
                self.assertEqual(parameter.grad is None, not parameter.requires_grad, name)

    def test_gradients_without_kept_gates_are_the_same(self):
        options = {}, {"num_layers": 2, "bidirectional": True}, {"bias": False}
        for kind, dtype, options in itertools.product(self.kinds, self.dtypes, options):
            for with_states, lengths in itertools.product((False, True), (None, torch.tensor([5, 2, 4]))):
                with self.subTest(kind=kind, dtype=dtype, with_states=with_states, lengths=lengths is not None, **options):
                    fast, exact = pair(dtype, self.device, 19, 24, kind=kind, **options)
                    self.same(fast.stash_("cells"), exact, (5, 3, 19), with_states, lengths)

    def test_gradients_of_mixed_stashes_and_of_a_replay_are_the_same(self):
        for kind, dtype, (layers, stash) in itertools.product(
            self.kinds, self.dtypes, ((2, ["cells", "gates"]), (2, ["gates", "cells"]), (1, "replay"), (2, "replay"), (3, "replay"))
        ):
            for with_states, options in itertools.product((False, True), ({}, {"bias": False})):
                with self.subTest(kind=kind, dtype=dtype, stash=stash, layers=layers, with_states=with_states, **options):
                    fast, exact = pair(dtype, self.device, 19, 20, layers, kind=kind, **options)
                    shape = 17, 3, 19
                    self.same(fast.stash_(stash), exact, shape, with_states)
                    input, hx, _ = given_to(fast, shape, with_states, self.device)
                    if stash == "replay":
                        in_chunks = [recurrent_layer.Stash("replay", 7, layers)]
                        with mock.patch.object(fast, "_stash_of", lambda *_: in_chunks):
                            self.same(fast, exact, shape, with_states)
                        # Outputs have the same bits, and so has another iteration.
                        states = hx if kind == "LSTM" or hx is None else hx[0]
                        outputs = [flat(fast.stash_(of)(input, states)) for of in ("replay", "replay", "gates")]
                        for one, again, other in zip(*outputs):
                            self.assertTrue(torch.equal(one, again) and torch.equal(one, other))

    def test_states_that_are_not_contiguous_are_the_same(self):
        for options in {"bidirectional": True}, {"num_layers": 2, "stash": "replay"}:
            stash = options.pop("stash", "gates")
            fast, exact = pair(self.dtypes[0], self.device, 19, 24, **options)
            fast.stash_(stash)
            input, states, _ = given_to(fast, (5, 3, 19), True, self.device)
            across = tuple(state.transpose(0, 1).contiguous().transpose(0, 1) for state in states)
            for one, other in zip(flat(fast(input, across)), flat(exact(input.double(), tuple(state.double() for state in states)))):
                self.assertLess(((one - other).norm() / other.norm()).item(), TOLERANCE[self.dtypes[0]])

    def test_reverse_is_between_flips(self):
        for kind, layers, batch_first in (("LSTM", 2, False), ("GRU", 1, True)):
            fast, plain = pair(self.dtypes[0], self.device, 5, 7, kind=kind, num_layers=layers, batch_first=batch_first)
            reverse = getattr(onchip, kind)(5, 7, layers, batch_first=batch_first, reverse=True).to(self.device, self.dtypes[0])
            reverse.load_state_dict(fast.state_dict())
            x = torch.randn(3, 4, 5, device=self.device).to(self.dtypes[0])
            dim = 1 if batch_first else 0
            for gradients in (True, False):
                with torch.set_grad_enabled(gradients):
                    y, finals = reverse(x)
                    expected, of_plain = plain(x.to(next(plain.parameters()).dtype).flip(dim))
                for found, wanted in ((y, expected.flip(dim)), *zip(finals, of_plain)):
                    self.assertLess((found - wanted).norm(), TOLERANCE[self.dtypes[0]] * wanted.norm())
        with self.assertRaises(ValueError):
            reverse(x, lengths=[1, 2, 3])

    def test_a_replay_says_what_it_goes_without(self):
        input = torch.randn(5, 3, 19, device=self.device, dtype=self.dtypes[0])
        for options, what in ({"bidirectional": True}, "a second direction"), ({"num_layers": 2, "dropout": 0.5}, "dropout"):
            with self.assertRaisesRegex(ValueError, f"a stash of replay goes without {what}"):
                onchip.LSTM(19, 24, stash="replay", **options)
        fast, _ = pair(self.dtypes[0], self.device, 19, 24)
        with self.assertRaisesRegex(ValueError, "a stash of replay goes without lengths"):
            fast.stash_("replay")(input, lengths=torch.tensor([5, 2, 4]))
        for refused in ("all", ["gates", "replay"], ["gates"] * 2, []):
            with self.assertRaisesRegex(ValueError, "expected one of gates, cells, replay, or a list"):
                fast.stash_(refused)

    def test_a_second_backward_computes_the_same(self):
        for kind, stash in itertools.product(self.kinds, api.STASHES):
            fast, _ = pair(self.dtypes[0], self.device, 19, 24, kind=kind)
            fast.stash_(stash)
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
        for kind in self.kinds:
            fast, exact = pair(self.dtypes[0], self.device, 3, 4096 if self.device == "cuda" else 65, kind=kind)
            input = torch.randn(2, 3, 3, device=self.device, dtype=self.dtypes[0])
            output, _ = fast(input)
            self.assertRegex(fast.explain(), "^torch: .*(65|4096) units")
            error = (output - exact(input.double())[0]).norm() / output.norm()
            self.assertLess(error.item(), TOLERANCE[self.dtypes[0]])

    def test_where_a_library_is_faster_training_takes_it(self):
        fast, exact = pair(self.dtypes[0], self.device, 3, 4)
        input = torch.randn(1, 2, 3, device=self.device, dtype=self.dtypes[0])
        with torch.backends.cudnn.flags(enabled=True):
            output, _ = fast(input)
            self.assertRegex(fast.explain(), "^torch: cuDNN is chosen")
            fast.eval()(input)  # it has no gradients there
            self.assertRegex(fast.explain(), "^on the chip")
            for less in (fast.train().stash_("cells"), fast.memory_("1 TiB")):  # it keeps more
                less(input)
                self.assertRegex(fast.explain(), "^on the chip")
        fast.stash_("gates")
        with torch.backends.cudnn.flags(enabled=False):
            again, _ = fast(input)
            self.assertRegex(fast.explain(), "^on the chip")
        for one in (output, again):
            self.assertLess(((one - exact(input.double())[0]).norm() / one.norm()).item(), TOLERANCE[self.dtypes[0]])


def _halve(tensor):
    with torch.no_grad():
        tensor.mul_(0.5)


class OnTheCpu(SameGradients, WithoutKernels):
    def test_gradcheck_and_gradgradcheck(self):
        torch.manual_seed(3)
        for kind in self.kinds:
            fast = getattr(onchip, kind)(2, 2, num_layers=2, bidirectional=True).double()
            given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 1, 2), (4, 1, 2), (4, 1, 2))]
            given = given if kind == "LSTM" else given[:2]

            def run(x, *states):
                return tuple(flat(fast(x, states[:2] if kind == "LSTM" else states[0])))

            self.assertTrue(torch.autograd.gradcheck(run, (*given, *fast.parameters())))
            self.assertTrue(torch.autograd.gradgradcheck(run, (*given, *fast.parameters())))
            self.assertTrue(fast.explain().startswith("on the chip"))

    def test_no_kernels_while_a_graph_is_captured(self):
        fast = onchip.LSTM(3, 4).double()
        input = torch.randn(3, 2, 3, dtype=torch.float64)
        with mock.patch.object(recurrent_layer, "_is_capturing", lambda: True):
            with self.assertRaisesRegex(RuntimeError, "3 steps, batch 2 and sizes 3 and 4.*run it once before"):
                fast(input)
            recurrent_layer._LAYERS.clear()
        fast(input)

    def test_memory_chooses_what_is_kept(self):
        gates, cells, replay = (api.Training.memory(2, "lstm", "fp64", 19, 24, 3, 5, 1, 0, stash)[0] for stash in api.STASHES)
        input = torch.randn(5, 3, 19, dtype=torch.float64)
        for budget, kept in (
            (gates, ["gates", "gates"]), (f"{gates - 1} B", ["cells", "gates"]), (cells, ["cells", "cells"]), (cells - 1, ["replay"]),
            (replay, ["replay"]), (replay - 1, ["replay"]),
        ):  # fmt: skip
            with self.subTest(budget=budget):
                fast = onchip.LSTM(19, 24, 2, memory=budget).double()
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    fast(input)
                self.assertEqual([layer.stash for layer in recurrent_layer._LAYERS.values()], kept)
                self.assertEqual([str(one.message)[:18] for one in said], ["onchip.LSTM needs "] if budget == replay - 1 else [])
                recurrent_layer._LAYERS.clear()
        self.assertEqual(onchip.GRU(19, 24).memory_("1.5 GiB")._memory, 1.5 * 2**30)
        for refused in ("8", "8 gigs", None, [8]):
            with self.assertRaisesRegex(ValueError, "expected bytes, or a text such as '8 GiB'"):
                onchip.LSTM(19, 24).memory_(refused)

    def test_a_library_that_fails_is_said_once(self):
        fast, exact = pair(torch.float64, "cpu", 3, 4)
        input = torch.randn(3, 2, 3, dtype=torch.float64)
        with mock.patch.object(api, "Training", side_effect=OSError("no libonchip.so")) as made:
            made.library.side_effect = OSError("no libonchip.so")
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
        for kind, options in (
            ("LSTM", {}), ("LSTM", {"proj_size": 2}), ("LSTM", {"bidirectional": True}), ("GRU", {"bidirectional": True}),
        ):  # fmt: skip
            fast = getattr(onchip, kind)(3, 4, **options)
            plain = getattr(torch.nn, kind)(3, 4, **options)
            plain.load_state_dict(fast.state_dict())
            self.assertEqual(fast.explain(), "no forward yet")
            input = torch.randn(5, 2, 3)
            packed = pack_padded_sequence(input, [5, 2])
            for one in (input, input[:, 0]):
                self.assertTrue(torch.equal(fast(one)[0], plain(one)[0]))
                self.assertEqual(fast.explain(), "torch: the input is not on a CUDA device")
            self.assertTrue(torch.equal(fast(packed)[0].data, plain(packed)[0].data))
            self.assertEqual(fast.explain(), "torch: the input is not on a CUDA device")

    def test_gradients_of_gradients_on_torchs_path(self):
        fast = onchip.LSTM(3, 4).double()
        input = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda x: fast(x)[0], (input,)))
        self.assertTrue(torch.autograd.gradgradcheck(lambda x: fast(x)[0], (input,)))

    def test_errors_are_torchs(self):
        lstms, grus = (onchip.LSTM(3, 4), torch.nn.LSTM(3, 4)), (onchip.GRU(3, 4), torch.nn.GRU(3, 4))
        for (fast, plain), input, hx in (
            (lstms, torch.randn(5, 2, 4), None),
            (lstms, torch.randn(5, 2, 3), (torch.randn(2, 2, 4), torch.randn(1, 2, 4))),
            (lstms, torch.randn(5, 2, 3), (torch.randn(1, 2, 5), torch.randn(1, 2, 4))),
            (grus, torch.randn(5, 2, 4), None),
            (grus, torch.randn(5, 2, 3), torch.randn(2, 2, 4)),
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


class OnTheGpu(SameGradients, OnAGpu):
    pass


if __name__ == "__main__":
    unittest.main()
