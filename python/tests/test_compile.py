# SPDX-License-Identifier: Apache-2.0
"""torch.compile(fullgraph=True) and the operator's own checks, where torch has them."""
import unittest

from .training_cases import OnAGpu, TOLERANCE, WithoutKernels, pair  # without torch, all is skipped

import torch
from onchip import recurrent_layer


@unittest.skipUnless(hasattr(torch.library, "opcheck"), "this torch has no operators of one's own")
class Compiled:
    def test_the_operator_is_what_it_says(self):
        for kind, lengths, with_states, directions in (
            ("LSTM", None, False, 1), ("LSTM", [5, 5], True, 2), ("GRU", [5, 5], True, 2),
        ):  # fmt: skip
            fast, _ = pair(self.dtypes[0], self.device, 3, 4, kind=kind, bidirectional=directions == 2)
            x = torch.randn(5, 2, 3, device=self.device, dtype=self.dtypes[0], requires_grad=True)
            states = [torch.randn(directions, 2, 4, device=self.device, dtype=self.dtypes[0], requires_grad=True) for _ in range(2)]
            lengths = None if lengths is None else torch.tensor(lengths, device=self.device)
            states[1:] = states[1:] if kind == "LSTM" else [None]
            given = (kind.lower(), x, *(states if with_states else (None, None)), lengths, list(fast.parameters()), directions, 0, False)
            tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
            torch.library.opcheck(torch.ops.onchip.layer, given, test_utils=tests)

    def test_no_break_of_the_graph_and_the_same_gradients(self):
        for options in ({}, {"num_layers": 2, "bidirectional": True, "batch_first": True}):
            for with_lengths in (False, True):
                with self.subTest(with_lengths=with_lengths, **options):
                    torch._dynamo.reset()
                    fast, _ = pair(self.dtypes[0], self.device, 3, 4, **options)
                    x = torch.randn(5, 2, 3, device=self.device, dtype=self.dtypes[0], requires_grad=True)
                    lengths = torch.tensor([1] * (4 if fast.batch_first else 1) + [2], device=self.device) if with_lengths else None

                    def loss(x):
                        output, (h, c) = fast(x * 2, lengths=lengths)
                        return (output.square().sum() + h.sum() + c.sum()).float()

                    wanted = torch.autograd.grad(loss(x), [x, *fast.parameters()])
                    compiled = torch.compile(loss, fullgraph=True, backend=self.backend)
                    for _ in range(2):
                        got = torch.autograd.grad(compiled(x), [x, *fast.parameters()])
                        for one, other in zip(got, wanted):
                            self.assertLess(((one - other).norm() / other.norm()).item(), TOLERANCE[self.dtypes[0]])
                    self.assertTrue(fast.explain().startswith("on the chip"), fast.explain())


class OnTheCpu(Compiled, WithoutKernels):
    backend = "aot_eager"


class OnTheGpu(Compiled, OnAGpu):
    backend = "aot_eager"


if __name__ == "__main__":
    unittest.main()
