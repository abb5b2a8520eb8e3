# SPDX-License-Identifier: Apache-2.0
"""What users of PyTorch do with recurrent layers: compile, copy, save, trace, transform, quantize, mix sizes. On the CPU without the
kernels; on a GPU with them, and beside cuDNN."""
import copy
import io
import statistics
import time
import unittest
import warnings
from unittest import mock

from .training_cases import TOLERANCE, OnAGpu, WithoutKernels, flat, pair  # without torch, all is skipped

import onchip
import torch
from onchip import recurrent_layer
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = "LSTM", "GRU"


class Situations:
    def input(self, *shape, **options):
        return torch.randn(*shape, device=self.device, dtype=self.dtypes[0], **options)

    def same(self, got, wanted):
        for one, other in zip(flat(got), flat(wanted)):
            self.assertLess(((one - other).norm() / other.norm()).item(), TOLERANCE[self.dtypes[0]])

    def pruned(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 48)
        with torch.no_grad():
            fast.weight_hh_l0[torch.rand(fast.weight_hh_l0.shape, device=self.device) > 0.25] = 0
        return fast.sparse_()

    def test_compiled_layers_take_any_number_of_steps_and_samples(self):
        for kind in KINDS:
            for dynamic in (None, True):
                torch._dynamo.reset()
                fast, exact = pair(self.dtypes[0], self.device, 19, 24, kind=kind)
                compiled = torch.compile(fast, backend="aot_eager", dynamic=dynamic)
                for steps, batch in ((5, 3), (7, 3), (7, 2), (5, 3)):
                    x = self.input(steps, batch, 19)
                    self.same(compiled(x), exact(x.double()))
                    self.assertRegex(fast.explain(), "^on the chip")

    def test_compiled_layers_are_compiled_once_more_for_all_other_sizes(self):
        from torch._dynamo.testing import CompileCounterWithBackend

        for kind, options in (("LSTM", {"bidirectional": True, "batch_first": True}), ("GRU", {})):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend("aot_eager")
            fast, exact = pair(self.dtypes[0], self.device, 19, 24, kind=kind, **options)
            compiled = torch.compile(fast, backend=counter)
            for shape in ((5, 3), (7, 4), (6, 5), (4, 9), (11, 3), (3, 2), (20, 18), (2, self.too_many), (18, 20)):
                given = [self.input(*shape[:: -1 if fast.batch_first else 1], 19, requires_grad=True), *fast.parameters()]
                exact_x = given[0].detach().double().requires_grad_()
                found, wanted = compiled(given[0]), exact(exact_x)
                self.same(found, wanted)
                gradients = torch.autograd.grad(found[0].square().sum(), given)
                of_exact = torch.autograd.grad(wanted[0].square().sum(), [exact_x, *exact.parameters()])
                self.same((gradients[0], gradients[1:]), (of_exact[0], of_exact[1:]))
                self.assertRegex(fast.explain(), "^on the chip")
            self.assertLessEqual(counter.frame_count, 2)

    def test_an_operator_takes_the_library_at_sizes_where_that_is_faster(self):
        torch._dynamo.reset()
        fast, exact = pair(self.dtypes[0], self.device, 19, 24)
        asked = []

        def library(device, dtype, is_inference, cell, *sizes):
            asked.append((is_inference, sizes[3]))
            return "cuDNN is faster" if sizes[3] == 2 else ""

        with mock.patch.object(recurrent_layer, "_library", library), torch.backends.cudnn.flags(enabled=True), torch.no_grad():
            compiled = torch.compile(fast, backend="aot_eager", dynamic=True, fullgraph=True)
            with mock.patch.object(recurrent_layer, "_torchs", wraps=recurrent_layer._torchs) as torchs:
                for steps in (5, 2, 7):
                    x = self.input(steps, 3, 19)
                    self.same(compiled(x), exact(x.double()))
                    self.assertEqual(torchs.call_count, steps != 5)
        self.assertEqual(set(asked), {(True, 5), (True, 2), (True, 7)})

    def test_compiled_packed_sequences_are_those_of_torch(self):
        torch._dynamo.reset()
        fast, exact = pair(self.dtypes[0], self.device, 19, 24)
        lengths = torch.tensor([7, 2, 5])

        def run(layer, x):
            y, final = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
            return pad_packed_sequence(y)[0], final

        x = self.input(7, 3, 19)
        self.same(torch.compile(run, backend="aot_eager")(fast, x), run(exact, x.double()))
        self.assertRegex(fast.explain(), "^on the chip")

    def test_compiling_torchs_path_takes_no_longer_for_more_steps(self):
        torch._dynamo.reset()
        fast, exact = pair(torch.float32, self.device, 6, 8)
        x = torch.randn(200, 3, 6, device=self.device, requires_grad=True)
        begin = time.monotonic()
        torch.compile(fast, backend="aot_eager")(x)[0].sum().backward()
        self.assertLess(time.monotonic() - begin, 20)  # of unrolled steps 46 s and more
        self.assertRegex(fast.explain(), "^torch: ")
        wanted = torch.autograd.grad(exact(x.double())[0].sum(), x)[0]
        self.assertLess(((x.grad - wanted).norm() / wanted.norm()).item(), 1e-4)

    def test_copies_and_files_of_sparse_layers_keep_their_mask(self):
        fast = self.pruned()
        kept, x = fast.weight_hh_l0 != 0, self.input(3, 2, 19)
        file = io.BytesIO()
        torch.save(fast, file)
        file.seek(0)
        for copied in (copy.deepcopy(fast), torch.load(file, weights_only=False)):
            self.same(copied(x), fast(x))
            copied(x)[0].sum().backward()
            self.assertRegex(copied.explain(), "^on the chip")
            self.assertFalse(copied.weight_hh_l0.grad[~kept].any())

    def test_transforms_see_torchs_operations(self):
        with torch.backends.cudnn.flags(enabled=False):
            for kind in KINDS:
                fast, _ = pair(torch.float32, self.device, 6, 8, kind=kind)
                x = torch.randn(5, 3, 6, device=self.device)
                weights = {name: tensor.detach() for name, tensor in fast.named_parameters()}

                def loss(weights):
                    return torch.func.functional_call(fast, weights, (x,))[0].square().mean()

                of_transform = torch.func.grad(loss)(weights)
                fast(x)[0].square().mean().backward()
                for name, parameter in fast.named_parameters():
                    self.assertTrue(torch.allclose(of_transform[name], parameter.grad, atol=1e-6), name)

    def test_traced_and_scripted_layers_are_torchs(self):
        for kind in KINDS:
            fast, exact = pair(self.dtypes[0], self.device, 19, 24, kind=kind)
            x = self.input(5, 3, 19)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch calls both deprecated
                for made in (torch.jit.trace(fast.eval(), (x,)), torch.jit.script(torch.nn.ModuleList([fast]))[0]):
                    self.same(made(x), exact(x.double()))
            self.assertIs(type(fast), getattr(onchip, kind))

    def test_lengths_are_numbers_too(self):
        fast, _ = pair(self.dtypes[0], self.device, 19, 24)
        x = self.input(5, 3, 19)
        self.same(fast(x, lengths=[5, 1, 3]), fast(x, lengths=torch.tensor([5, 1, 3])))
        for wrong in ([5, 1], [5, 1, 6], [5, 1, 3.0], [5, 0, 3]):
            with self.assertRaisesRegex(ValueError, "lengths must be"):
                fast(x, lengths=wrong)

    def test_an_evaluating_layer_takes_the_library_where_that_is_faster(self):
        fast, _ = pair(self.dtypes[0], self.device, 3, 4)
        fast.eval()
        with mock.patch.object(recurrent_layer, "_library", lambda *_: "cuDNN is faster"), torch.backends.cudnn.flags(enabled=True):
            with torch.no_grad():
                fast(self.input(1, 2, 3))
            self.assertEqual(fast.explain(), "torch: cuDNN is faster")
            fast(self.input(1, 2, 3))  # whose gradients may be asked for
            self.assertRegex(fast.explain(), "^on the chip")

    def test_layers_that_nothing_uses_are_forgotten_and_come_again(self):
        fast, exact = pair(self.dtypes[0], self.device, 3, 5)  # as no other test has it
        with mock.patch.object(recurrent_layer, "_MOST_LAYERS", 3):
            for steps in (1, 2, 3, 4, 5, 1):
                x = self.input(steps, 2, 3)
                self.same(fast(x), exact(x.double()))
                self.assertLessEqual(len(recurrent_layer._LAYERS) - len(recurrent_layer._OF_GRAPHS), 3)


class WarnsByName(unittest.TestCase):
    def test_what_replace_leaves_is_named(self):
        model = torch.nn.ModuleDict({"a": torch.nn.LSTM(3, 4), "b": torch.nn.GRU(3, 4)})
        torch.nn.utils.parametrizations.weight_norm(model["b"], "weight_hh_l0")
        with self.assertWarnsRegex(UserWarning, "leaves 'b' as it is: ParametrizedGRU"):
            onchip.replace(model)
        self.assertIs(type(model["a"]), onchip.LSTM)

    def test_quantization_says_what_it_leaves(self):
        model = torch.nn.Sequential(onchip.LSTM(3, 4))
        with self.assertWarnsRegex(UserWarning, "onchip.LSTM is not quantized: quantize torch.nn.LSTM before"):
            torch.ao.quantization.quantize_dynamic(model, {torch.nn.LSTM})


class OnTheCpu(Situations, WithoutKernels):
    too_many = 30  # samples for the kernels


class OnTheGpu(Situations, OnAGpu):
    too_many = 3000

    def test_a_graph_keeps_its_layer(self):
        fast, _ = pair(self.dtypes[0], self.device, 64, 128)
        x = self.input(20, 8, 64)
        with torch.no_grad(), mock.patch.object(recurrent_layer, "_MOST_LAYERS", 1):
            wanted, graph = fast(x), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                got = fast(x)
            for steps in range(1, 5):
                fast(self.input(steps, 8, 64))
            graph.replay()
            torch.cuda.synchronize()
            self.same(got, wanted)

    def test_without_gradients_cudnn_is_chosen_by_the_price_of_inference(self):
        with torch.backends.cudnn.flags(enabled=True), torch.no_grad():
            for hidden, batch, steps, expected in ((512, 1, 1, "torch"), (512, 64, 1, "torch"), (1536, 256, 20, "torch"), (512, 64, 100, "on")):
                fast, exact = pair(self.dtypes[0], self.device, hidden, hidden)
                x = self.input(steps, batch, hidden)
                self.same(fast(x), exact(x.double()))
                self.assertRegex(fast.explain(), f"^{expected}.*(a call without gradients is priced|the chip)")

    def graph_us(self, layer, x):
        """Of a call in a CUDA graph, the median of many."""
        layer(x)
        graph, times = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph):
            layer(x)
        for _ in range(40):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(1000 * begin.elapsed_time(end))
        return statistics.median(times)

    def test_an_evaluating_layer_is_no_slower_than_torchs(self):
        with torch.backends.cudnn.flags(enabled=True), torch.no_grad():
            for kind, hidden, batch, steps in (
                ("GRU", 32, 1, 100), ("LSTM", 32, 2, 100), ("GRU", 128, 2, 100), ("LSTM", 512, 1, 1), ("GRU", 512, 64, 1),
                ("LSTM", 512, 64, 100), ("LSTM", 1536, 256, 20), ("GRU", 1024, 16, 50),
            ):  # fmt: skip
                with self.subTest(kind=kind, hidden=hidden, batch=batch, steps=steps):
                    fast = getattr(onchip, kind)(hidden, hidden).to(device=self.device, dtype=self.dtypes[0]).eval()
                    torchs = getattr(torch.nn, kind)(hidden, hidden).to(device=self.device, dtype=self.dtypes[0]).eval()
                    x = self.input(steps, batch, hidden)
                    self.assertLess(self.graph_us(fast, x), 1.1 * self.graph_us(torchs, x), fast.explain())

    def given_up(self, workspaces, run):
        """run() while the device's copy engine overwrites, time and again, what its kernels exchange with what they wait for to
        change: one of them misses a state and gives up waiting. `workspaces`: those that recurrent_layer allocates."""
        ones, side = torch.full((64 << 20,), 255, dtype=torch.uint8).pin_memory(), torch.cuda.Stream()
        found = run()
        time.sleep(0.002)  # the recurrence has its weights
        with torch.cuda.stream(side):
            for _ in range(100):
                workspaces[-1][: len(ones)].copy_(ones[: len(workspaces[-1])], non_blocking=True)
        torch.cuda.synchronize()
        return found

    def test_what_gives_up_waiting_is_nan_and_an_error_also_in_a_replayed_graph(self):
        for kind in KINDS:
            fast, _ = pair(self.dtypes[0], self.device, 64, 256, kind=kind)
            x, workspaces, empty = self.input(10000, 8, 64), [], torch.empty

            def allocate(*given, **options):
                workspaces.append(empty(*given, **options))
                return workspaces[-1]

            def is_error(found):
                for tensor in found:
                    self.assertTrue(tensor.isnan().all())
                with self.assertRaisesRegex(onchip.CudaError, "gave up waiting"):
                    fast.check()
                fast.check()

            wanted = flat(fast(x))
            with mock.patch.object(torch, "empty", allocate):
                is_error(flat(self.given_up(workspaces, lambda: fast(x))))
                self.given_up(workspaces, lambda: fast(x))
                with self.assertRaisesRegex(onchip.CudaError, "gave up waiting"):
                    fast(x)
                with torch.no_grad():
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        of_graph = flat(fast(x))
                    is_error(self.given_up(workspaces, lambda: graph.replay() or of_graph))
                    graph.replay()
                    fast.check()
            for found in (of_graph, flat(fast(x))):
                for one, other in zip(found, wanted):
                    self.assertTrue(torch.equal(one, other))

    def test_a_part_of_the_chip_takes_torchs_path_and_says_so(self):
        try:
            from torch.cuda import green_contexts
        except ImportError:
            self.skipTest("this torch has no green contexts")
        if not green_contexts.SUPPORTED:
            self.skipTest("this torch was built without green contexts")
        for kind in KINDS:
            fast, exact = pair(self.dtypes[0], self.device, 64, 1024, kind=kind)
            x = self.input(9, 8, 64)
            wanted = fast(x)
            self.assertRegex(fast.explain(), "^on the chip")
            part = green_contexts.GreenContext.create(16, torch.cuda.current_device())
            part.set_context()
            try:
                found = fast(x)
                torch.cuda.synchronize()
            finally:
                part.pop_context()
            self.assertEqual(fast.explain(), "torch: the kernels take more SMs than this context has")
            self.same(found, exact(x.double()))
            for one, other in zip(flat(fast(x)), flat(wanted)):
                self.assertTrue(torch.equal(one, other))
            self.assertRegex(fast.explain(), "^on the chip")


if __name__ == "__main__":
    unittest.main()
