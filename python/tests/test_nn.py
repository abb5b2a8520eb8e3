# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU to train with: as torch's, once and twice differentiable."""
import copy
import itertools
import subprocess
import sys
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("no torch") from None

import onchip
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.rnn import pack_padded_sequence

KINDS = {torch.nn.LSTM: onchip.LSTM, torch.nn.GRU: onchip.GRU}


def flat(result):
    output, states = result
    return (output, *states) if isinstance(states, tuple) else (output, states)


class TestNn(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def states(self, kind, shape, dtype):
        states = [torch.randn(shape, dtype=dtype) for _ in range(2 if kind is torch.nn.LSTM else 1)]
        return tuple(states) if len(states) == 2 else states[0]

    def test_results_and_gradients_are_those_of_torch(self):
        choices = itertools.product(KINDS, (1, 3), (False, True), (False, True), (False, True), (False, True))
        for kind, layers, bidirectional, batch_first, bias, given in choices:
            for dtype in (torch.float32, torch.float64):
                options = dict(num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
                theirs = kind(5, 7, dtype=dtype, **options)
                ours = KINDS[kind](5, 7, dtype=dtype, **options)
                ours.load_state_dict(theirs.state_dict())
                self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
                for shape in ((4, 3, 5), (4, 5)):
                    input = torch.randn(shape, dtype=dtype, requires_grad=True)
                    batch = () if len(shape) == 2 else (4 if batch_first else 3,)
                    hx = self.states(kind, (layers * (1 + bidirectional), *batch, 7), dtype) if given else None
                    results = [flat(module(input, hx)) for module in (theirs, ours)]
                    grads = [
                        torch.autograd.grad(sum((r * r).sum() for r in result), [input, *module.parameters()])
                        for result, module in zip(results, (theirs, ours))
                    ]
                    for mine, other in zip(results[1] + grads[1], results[0] + grads[0]):
                        torch.testing.assert_close(mine, other)

    def test_float64_is_differentiable_twice(self):
        for kind in KINDS.values():
            module = kind(3, 2, num_layers=2, bidirectional=True, dtype=torch.float64)
            input = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
            names, weights = zip(*module.named_parameters())

            def run(input, *weights):
                for name, weight in zip(names, weights):
                    delattr(module, name)
                    setattr(module, name, weight)
                return module(input)[0]

            copies = [weight.detach().clone().requires_grad_() for weight in weights]
            module._parameters.clear()
            for name, weight in zip(names, copies):
                setattr(module, name, weight)
            self.assertTrue(gradcheck(run, (input, *copies)))
            self.assertTrue(gradgradcheck(run, (input, *copies)))

    def test_dropout_is_between_layers_and_only_in_training(self):
        for kind in KINDS.values():
            module = kind(3, 64, num_layers=2, dropout=0.5, dtype=torch.float64)
            input = torch.randn(2, 4, 3, dtype=torch.float64)
            self.assertFalse(torch.equal(module(input)[0], module(input)[0]))
            module.eval()
            self.assertTrue(torch.equal(module(input)[0], module(input)[0]))

    def test_packed_and_projected_go_the_way_of_torch(self):
        for kind in KINDS:
            theirs = kind(5, 7, dtype=torch.float64)
            ours = onchip.replace(copy.deepcopy(theirs))
            packed = pack_padded_sequence(torch.randn(4, 3, 5, dtype=torch.float64), [4, 1, 2], enforce_sorted=False)
            torch.testing.assert_close(ours(packed)[0].data, theirs(packed)[0].data)
        theirs = torch.nn.LSTM(5, 7, proj_size=3, dtype=torch.float64)
        input = torch.randn(4, 3, 5, dtype=torch.float64)
        torch.testing.assert_close(onchip.replace(copy.deepcopy(theirs))(input), theirs(input))

    def test_replace_keeps_parameters_and_leaves_other_classes(self):
        class Own(torch.nn.LSTM):
            pass

        model = torch.nn.ModuleDict({"a": torch.nn.LSTM(3, 4), "b": torch.nn.Sequential(torch.nn.GRU(3, 4)), "c": Own(3, 4)})
        before = dict(model.named_parameters())
        self.assertIs(onchip.replace(model), model)
        self.assertEqual([type(model["a"]), type(model["b"][0]), type(model["c"])], [onchip.LSTM, onchip.GRU, Own])
        for name, parameter in model.named_parameters():
            self.assertIs(parameter, before[name])

    def test_bad_input_is_an_error(self):
        for kind in KINDS.values():
            module = kind(3, 4, dtype=torch.float64)
            for shape in ((2, 2, 5), (0, 2, 3), (3,), (1, 2, 2, 3)):
                with self.assertRaises(RuntimeError):
                    module(torch.zeros(shape, dtype=torch.float64))
            state = torch.zeros(1, 3, 4, dtype=torch.float64)
            with self.assertRaisesRegex(RuntimeError, "hidden states"):
                module(torch.zeros(2, 2, 3, dtype=torch.float64), (state, state) if kind is onchip.LSTM else state)

    def test_the_package_imports_without_torch(self):
        code = "import sys; sys.modules['torch'] = None; import onchip; assert not hasattr(onchip, 'nothing')"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
