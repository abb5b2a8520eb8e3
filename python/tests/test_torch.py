# SPDX-License-Identifier: Apache-2.0
"""from_torch: what it hands to a recurrence, on the CPU with one that computes the cell itself; the same on a GPU."""
import contextlib
import ctypes
import functools
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("no torch") from None

import onchip
from onchip import api, torch_module
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_padded_sequence

KINDS = {
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "tanh": torch.nn.RNN,
    "relu": functools.partial(torch.nn.RNN, nonlinearity="relu"),
}
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def pruned(cell, dtype=torch.float32, device="cpu", density=0.3, **options):
    torch.manual_seed(1)
    module = KINDS[cell](19, 37, **options)
    for name, weights in list(module.named_parameters()):
        if name.startswith("weight_hh"):
            prune.random_unstructured(module, name, 1 - density)
    return module.to(device=device, dtype=dtype).eval()


class FakeRecurrence:
    """A recurrence in fp32 on the CPU, from the pointers that the real one is given."""

    def __init__(self, program, workspace, workspace_bytes, most_steps, stream):
        assert workspace and workspace_bytes == program.workspace_bytes(most_steps)
        self.program, self.weights = program, program.given

    def enqueue(self, stream, steps, input, initial, initial_cell, output, final_state, final_cell, output_stride,
                lengths, backward):  # fmt: skip
        p = self.program
        batch, hidden, rows = p.batch, p.hidden, p.gates * p.hidden
        weights, b_in, b_rec = self.weights
        x = read(input, (steps, batch, rows)) + b_in
        state = read(initial, (batch, hidden))
        cell = read(initial_cell, (batch, hidden))
        for sample in range(batch):
            length = steps if lengths is None else lengths[sample]
            h, c = state[sample], cell[sample]
            for t in range(steps):
                write(output + 4 * (t * batch + sample) * output_stride, torch.zeros(hidden))
            for t in reversed(range(length)) if backward else range(length):
                r = weights @ h + b_rec
                if p.cell == "lstm":
                    i, f, g, o = (x[t, sample] + r).split(hidden)
                    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                    h = o.sigmoid() * c.tanh()
                elif p.cell == "gru":
                    (xr, xz, xn), (rr, rz, rn) = x[t, sample].split(hidden), r.split(hidden)
                    z = (xz + rz).sigmoid()
                    h = (1 - z) * (xn + (xr + rr).sigmoid() * rn).tanh() + z * h
                else:
                    h = getattr(torch, p.cell)(x[t, sample] + r)
                write(output + 4 * (t * batch + sample) * output_stride, h)
            write(final_state + 4 * sample * hidden, h)
            if final_cell is not None:
                write(final_cell + 4 * sample * hidden, c)

    def check(self, stream):
        pass


def read(address, shape):
    if address is None:
        return torch.zeros(shape)
    count = torch.Size(shape).numel()
    values = (ctypes.c_float * count).from_address(address)
    return torch.tensor(list(values)).reshape(shape)


def write(address, values):
    (ctypes.c_float * values.numel()).from_address(address)[:] = values.tolist()


class FakeProgram(api.Program):
    """Compiled for sm_90; remembers what it was given."""

    def __init__(self, chip, cell, matrix, batch, precision, input_bias=None, recurrent_bias=None, tier="streamed"):
        super().__init__(chip, cell, matrix, batch, precision, input_bias, recurrent_bias, "sm_90", tier)
        zeros = torch.zeros(self.gates * self.hidden)
        self.given = (
            FakeProgram.dense.pop(0),
            zeros if input_bias is None else input_bias,
            zeros if recurrent_bias is None else recurrent_bias,
        )


@contextlib.contextmanager
def on_the_cpu():
    make = api.Matrix.dense

    def dense(values):
        FakeProgram.dense.append(values.clone())
        return make(values)

    FakeProgram.dense = []
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    with (
        mock.patch.object(torch_module, "_require_cuda", lambda weights: None),
        mock.patch.object(torch_module, "_chip", lambda chip, device: api.Chip("h200")),
        mock.patch.object(torch.cuda, "device", lambda device: contextlib.nullcontext()),
        mock.patch.object(torch.cuda, "current_stream", lambda: stream),
        mock.patch.object(api, "Program", FakeProgram),
        mock.patch.object(api, "Recurrence", FakeRecurrence),
        mock.patch.object(api.Matrix, "dense", dense),
    ):
        yield


class SameResults:
    """What must hold on any device."""

    device = "cpu"
    dtypes = (torch.float32,)

    def input(self, module, *shape):
        torch.manual_seed(2)
        return torch.randn(*shape, device=self.device, dtype=module.weight_ih_l0.dtype)

    def same(self, got, wanted):
        if isinstance(wanted, tuple):
            self.assertEqual(len(got), len(wanted))
            for one, other in zip(got, wanted):
                self.same(one, other)
            return
        self.assertEqual(got.shape, wanted.shape)
        self.assertEqual(got.dtype, wanted.dtype)
        error = (got.float() - wanted.float()).norm() / wanted.float().norm()
        self.assertLess(error.item(), TOLERANCE[wanted.dtype])

    def both(self, module, fast, *arguments):
        with torch.no_grad():
            self.same(fast(*arguments), module(*arguments))
        fast.check()

    def test_every_cell_and_type(self):
        for cell in KINDS:
            for dtype in self.dtypes:
                with self.subTest(cell=cell, dtype=dtype):
                    module = pruned(cell, dtype, self.device, num_layers=2)
                    fast = onchip.from_torch(module, batch=3)
                    self.both(module, fast, self.input(module, 5, 3, 19))
                    self.assertTrue(all(fit.fits for fit in fast.fits))

    def test_pruned_weights_are_those_of_the_next_forward(self):
        module = pruned("lstm", self.dtypes[0], self.device)
        with torch.no_grad():
            module.weight_hh_l0_orig.mul_(-1.5)  # as an optimizer does; the pruned weights follow with the next forward
        self.both(module, onchip.from_torch(module, batch=3), self.input(module, 5, 3, 19))

    def test_both_directions_batch_first_and_without_biases(self):
        for options in ({"bidirectional": True}, {"batch_first": True}, {"bias": False}):
            for cell in ("lstm", "gru"):
                with self.subTest(cell=cell, **options):
                    module = pruned(cell, self.dtypes[0], self.device, num_layers=2, **options)
                    shape = (3, 5, 19) if options.get("batch_first") else (5, 3, 19)
                    self.both(module, onchip.from_torch(module, batch=3), self.input(module, *shape))

    def test_initial_states_smaller_batches_and_unbatched_input(self):
        for cell in ("lstm", "gru"):
            module = pruned(cell, self.dtypes[0], self.device, num_layers=2, bidirectional=True)
            fast = onchip.from_torch(module, batch=5)
            for batch in (5, 2):
                h, c = self.input(module, 2, 4, batch, 37).unbind()
                self.both(module, fast, self.input(module, 4, batch, 19), (h, c) if cell == "lstm" else h)
            h, c = self.input(module, 2, 4, 37).unbind()
            self.both(module, fast, self.input(module, 4, 19), (h, c) if cell == "lstm" else h)

    def test_packed_sequences_sorted_or_not(self):
        for lengths, is_sorted in (([7, 4, 4, 1], True), ([4, 7, 1, 4], False)):
            for cell in ("lstm", "gru"):
                with self.subTest(cell=cell, lengths=lengths):
                    module = pruned(cell, self.dtypes[0], self.device, num_layers=2, bidirectional=True)
                    packed = pack_padded_sequence(self.input(module, 7, 4, 19), lengths, enforce_sorted=is_sorted)
                    h, c = self.input(module, 2, 4, 4, 37).unbind()
                    hx = (h, c) if cell == "lstm" else h
                    fast = onchip.from_torch(module, batch=6)
                    with torch.no_grad():
                        (got, got_final), (wanted, wanted_final) = fast(packed, hx), module(packed, hx)
                    self.same(got.data, wanted.data)
                    self.same(got_final, wanted_final)
                    self.assertTrue(torch.equal(got.batch_sizes, wanted.batch_sizes))
                    for indices in ("sorted_indices", "unsorted_indices"):
                        one, other = getattr(got, indices), getattr(wanted, indices)
                        self.assertTrue(one is other is None or torch.equal(one, other))

    def test_one_step_at_a_time_gives_the_sequence(self):
        for cell in ("lstm", "gru"):
            module = pruned(cell, self.dtypes[0], self.device, num_layers=2)
            fast = onchip.from_torch(module, batch=3, most_steps=1)
            input, state, outputs = self.input(module, 6, 3, 19), None, []
            for step in input:
                output, state = fast.step(step, state)
                outputs.append(output)
            with torch.no_grad():
                self.same((torch.stack(outputs), state), module(input))

    def test_what_it_cannot_do_is_refused(self):
        module = pruned("lstm", self.dtypes[0], self.device)
        fast = onchip.from_torch(module, batch=3)
        input = self.input(module, 5, 3, 19)
        for bad in (input[..., :3], input.repeat(1, 2, 1), input.double(), input[:0], input[None]):
            with self.assertRaises(ValueError):
                fast(bad)
        for hx in (input, (input, input), (self.input(module, 1, 3, 37),)):
            with self.assertRaises(ValueError):
                fast(input, hx)
        with self.assertRaisesRegex(RuntimeError, "no gradients"):
            fast(input.clone().requires_grad_())
        with self.assertRaisesRegex(TypeError, "found a Linear"):
            onchip.from_torch(torch.nn.Linear(3, 3))
        with self.assertRaisesRegex(ValueError, "proj_size"):
            onchip.from_torch(torch.nn.LSTM(19, 37, proj_size=5))
        with self.assertRaisesRegex(ValueError, "eval"):
            onchip.from_torch(torch.nn.LSTM(19, 37, num_layers=2, dropout=0.5))
        with self.assertRaisesRegex(ValueError, "float64"):
            onchip.from_torch(torch.nn.LSTM(19, 37).double())
        with self.assertRaisesRegex(ValueError, "has no precision 'fp8'"):
            onchip.from_torch(torch.nn.LSTM(19, 37), precision="fp8")


class OnTheCpu(SameResults, unittest.TestCase):
    def setUp(self):
        context = on_the_cpu()
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)


class WithoutAGpu(unittest.TestCase):
    def test_a_module_on_the_cpu_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not on a CUDA device"):
            onchip.from_torch(pruned("lstm"))


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnAGpu(SameResults, unittest.TestCase):
    device = "cuda"
    dtypes = (torch.float16, torch.bfloat16, torch.float32)

    def setUp(self):
        for library in (torch.backends.cuda.matmul, torch.backends.cudnn):
            before = library.allow_tf32
            library.allow_tf32 = False
            self.addCleanup(setattr, library, "allow_tf32", before)

    def test_another_stream_and_a_graph(self):
        module = pruned("lstm", torch.float16, "cuda", num_layers=2)
        fast = onchip.from_torch(module, batch=3)
        input = self.input(module, 5, 3, 19)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.both(module, fast, input)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output, final = fast(input)
        input.copy_(input.flip(0))
        graph.replay()
        with torch.no_grad():
            self.same((output, final), module(input))

    def test_many_samples_without_zeros_are_run_by_the_recurrences_of_onchips_layers(self):
        for cell, dtype in (("lstm", torch.float16), ("gru", torch.bfloat16)):
            module = pruned(cell, dtype, "cuda", density=1, num_layers=2, bidirectional=cell == "gru")
            fast = onchip.from_torch(module, batch=100)
            for batch in (100, 7):
                self.both(module, fast, self.input(module, 5, batch, 19))
            self.assertRegex(fast.explain(), "dense_training|cuDNN is chosen")
            self.assertEqual(len(fast.fits), 4 if cell == "gru" else 2)
            packed = pack_padded_sequence(self.input(module, 9, 4, 19), [9, 8, 3, 1])
            with torch.no_grad():
                self.same(fast(packed)[0].data, module(packed)[0].data)
            with self.assertRaisesRegex(ValueError, "expected 1 or more of 1 to 100"):
                fast(self.input(module, 5, 101, 19))

    def test_tensors_of_dlpack(self):
        bias = torch.zeros(37)
        weights = api.Matrix.dense(torch.eye(37))
        chip = torch_module._chip(None, torch.device("cuda"))
        program = api.Program(chip, "relu", weights, 3, "fp32", bias, bias)
        size = program.workspace_bytes(4)
        workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
        stream = torch.cuda.current_stream().cuda_stream
        recurrence = api.Recurrence(program, workspace.data_ptr(), size, 4, stream)
        input = torch.rand(4, 3, 37, device="cuda")
        output, state = torch.empty_like(input), torch.zeros(3, 37, device="cuda")
        recurrence.enqueue(stream, 4, input=input, output=output)
        recurrence.step(stream, input[0], state)
        recurrence.check(stream)
        self.assertTrue(torch.allclose(output, input.cumsum(0)))
        self.assertTrue(torch.equal(state, input[0]))
        with self.assertRaisesRegex(ValueError, "has shape"):
            recurrence.enqueue(stream, 3, input=input)


if __name__ == "__main__":
    unittest.main()
