# SPDX-License-Identifier: Apache-2.0
"""onchip.LSTM.sparse_: on the CPU without the kernels, in double precision; on a GPU with them."""
import unittest

from .training_cases import TOLERANCE, OnAGpu, WithoutKernels, pair  # without torch, all is skipped

import torch
import torch.nn.utils.prune


class Sparse:
    def pruned(self, dtype, **options):
        """onchip's and torch's, with one recurrent weight in four."""
        fast, exact = pair(dtype, self.device, 19, 48, **options)
        with torch.no_grad():
            for name, parameter in fast.named_parameters():
                if name.startswith("weight_hh"):
                    parameter[torch.rand(parameter.shape, device=self.device) > 0.25] = 0
        exact.load_state_dict(fast.state_dict())
        return fast, exact

    def test_gradients_are_torchs_where_there_are_weights_and_else_zero(self):
        for dtype in self.dtypes:
            for options in ({}, {"num_layers": 2}, {"bias": False}):
                with self.subTest(dtype=dtype, **options):
                    fast, exact = self.pruned(dtype, **options)
                    self.assertIs(fast.sparse_(), fast)
                    x = torch.randn(7, 5, 19, device=self.device, dtype=dtype)
                    dy = torch.randn(7, 5, 48, device=self.device, dtype=dtype)
                    (fast(x)[0] * dy).sum().backward()
                    (exact(x.double())[0] * dy.double()).sum().backward()
                    self.assertIn("on the chip", fast.explain())
                    expected = dict(exact.named_parameters())
                    for name, parameter in fast.named_parameters():
                        gradient = expected[name].grad
                        if name.startswith("weight_hh"):
                            self.assertFalse(parameter.grad[parameter == 0].any(), name)
                            gradient = gradient * (expected[name] != 0)
                        error = (parameter.grad.double() - gradient).norm() / gradient.norm()
                        self.assertLessEqual(error.item(), TOLERANCE[dtype], name)

    def test_masks_of_prune_are_taken(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 48)
        torch.nn.utils.prune.random_unstructured(fast, "weight_hh_l0", amount=0.8)
        fast.sparse_()
        fast(torch.randn(3, 2, 19, device=self.device, dtype=self.dtypes[0]))[0].sum().backward()
        gradient = fast.weight_hh_l0_orig.grad
        self.assertTrue(gradient.any())
        self.assertFalse(gradient[fast.weight_hh_l0_mask == 0].any())

    def test_what_it_does_not_go_with_is_explained_and_it_can_be_taken_back(self):
        fast, _ = self.pruned(self.dtypes[0], bidirectional=True)
        x = torch.randn(3, 2, 19, device=self.device, dtype=self.dtypes[0])
        fast.sparse_()(x)
        self.assertEqual(fast.explain(), "torch: sparse_() goes without lengths, a second direction and torch.compile")
        fast.sparse_(False)(x)
        self.assertIn("on the chip", fast.explain())


class SparseWithoutKernels(Sparse, WithoutKernels):
    pass


class SparseOnAGpu(Sparse, OnAGpu):
    pass


if __name__ == "__main__":
    unittest.main()
