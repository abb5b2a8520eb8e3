# SPDX-License-Identifier: Apache-2.0
"""Pruned torch.nn.LSTM, GRU and RNN modules on the chip. Imports torch; the package imports this at its first use."""
import functools

import torch
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import api, nn

_MOST_OF_PROGRAM = 64  # samples
_FEW_STEPS = 1  # that onchip.LSTM and GRU compute in a launch for each layer, which loads no weights into the SMs
_PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
# Parts of the names of GPUs, and the shipped chip that plans for them.
_CHIPS = {
    "H200": "h200",
    "H100": "h100_sxm",
    "B200": "b200",
    "A100": "a100",
    "L40S": "l40s",
    "RTX 4090": "rtx_4090",
}


def _cell(module):
    if isinstance(module, torch.nn.LSTM):
        return "lstm"
    if isinstance(module, torch.nn.GRU):
        return "gru"
    if isinstance(module, torch.nn.RNN):
        return module.nonlinearity  # "tanh" or "relu"
    raise TypeError(f"expected a torch.nn.LSTM, GRU or RNN, found a {type(module).__name__}")


def _require_cuda(weights):
    if weights.device.type != "cuda":
        raise ValueError("the module is not on a CUDA device; move it there first: module.cuda()")


def _chip(chip, device):
    properties = torch.cuda.get_device_properties(device)
    if chip is None:
        chip = next((name for part, name in _CHIPS.items() if part in properties.name), None)
        if chip is None:
            raise ValueError(f"no shipped chip is known for the {properties.name}; name one, or a chip file, as 'chip'")
    found = api.Chip(chip)
    found.set(f"sm.count={properties.multi_processor_count}")
    return found


def from_torch(module, batch=1, *, chip=None, most_steps=2048, precision=None, tier="streamed"):
    """A module with the same results as `module` for inference, its recurrent weights on the chip, zeros skipped.

    module      torch.nn.LSTM, GRU or RNN on a CUDA device, pruned as it is (zeros are what torch.nn.utils.prune or you
                made zero): fp16, bf16 or fp32, any number of layers, one direction or both; no proj_size
    batch       the most samples of an input; up to 64 fewer cost as much. An LSTM or GRU of fp16 or bf16 whose zeros are so
                few, or whose samples so many, that the recurrences of onchip.LSTM and GRU are priced lower is run by those,
                which skip no zeros: explain() says so. More than 64 samples are always
    chip        for which to plan: a name, a chip file; None: the device's. Its number of SMs becomes the device's
    most_steps  of one launch; longer sequences take several
    precision   "fp8": round the recurrent weights of an fp16 module to e4m3 with a scale per row, which changes results
    tier        where weights may lie at most; "shared_memory" refuses what does not stay on the SMs

    Compiles a kernel per layer and direction (a tenth of a second to seconds, cached on disk), and allocates workspaces
    by torch. Later changes of the module's weights do not matter to the result. Raises onchip.DoesNotFit.
    """
    return OnchipRNN(module, batch, chip, most_steps, precision, tier)


def _shared(weights):
    """fp32 in host memory, row-major."""
    return weights.detach().to(device="cpu", dtype=torch.float32).contiguous()


class OnchipRNN(torch.nn.Module):
    """What from_torch returns. Has no parameters, knows no gradients, and stays on its device."""

    def __init__(self, module, batch, chip, most_steps, precision, tier):
        super().__init__()
        self.cell = _cell(module)
        if getattr(module, "proj_size", 0):
            raise ValueError("proj_size is not supported")
        if module.dropout and module.training:
            raise ValueError("the module drops values out while it trains; call eval() on it first")
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, BasePruningMethod):  # sets the pruned weights before a forward, and not before
                hook(module, ())
        weights = module.weight_hh_l0
        if weights.dtype not in _PRECISIONS:
            raise ValueError(f"the module's weights are {weights.dtype}; expected float16, bfloat16 or float32")
        if precision is None:
            precision = _PRECISIONS[weights.dtype]
        elif precision != _PRECISIONS[weights.dtype] and (precision, weights.dtype) != ("fp8", torch.float16):
            raise ValueError(f"a module of {weights.dtype} has no precision {precision!r}")
        _require_cuda(weights)
        self.batch, self.dtype, self.device = batch, weights.dtype, weights.device
        self.input_size, self.hidden_size, self.num_layers = module.input_size, module.hidden_size, module.num_layers
        self.batch_first, self.directions = module.batch_first, 2 if module.bidirectional else 1
        self._input_weights, self._programs, self._workspaces, self._recurrences = [], [], [], []
        is_free = chip is None and tier == "streamed" and precision == _PRECISIONS[weights.dtype]
        chip = _chip(chip, self.device)
        with torch.cuda.device(self.device):
            suffixes = [
                f"_l{place // self.directions}" + ("_reverse" if place % self.directions else "")
                for place in range(self.num_layers * self.directions)
            ]
            matrices = [api.Matrix.dense(_shared(getattr(module, "weight_hh" + suffix))) for suffix in suffixes]
            fits = functools.partial(api.fit, chip, self.cell, batch=batch, precision=precision, tier=tier)
            self._fits = [fits(matrix=matrix) for matrix in matrices]
            has_dense = is_free and precision in ("fp16", "bf16") and self.cell in ("lstm", "gru")
            self._dense = self._few = None
            if has_dense and self._is_dense_faster(precision, most_steps):
                self._dense = self._few = self._as_dense(module)
            elif has_dense and self._is_dense_faster(precision, _FEW_STEPS):
                self._few = self._as_dense(module)
            if self._dense is not None:
                return
            stream = torch.cuda.current_stream().cuda_stream
            for suffix, matrix in zip(suffixes, matrices):
                biases = (
                    (getattr(module, "bias_ih" + suffix), getattr(module, "bias_hh" + suffix))
                    if module.bias
                    else (None, None)
                )
                program = api.Program(
                    chip,
                    self.cell,
                    matrix,
                    batch,
                    precision,
                    *(None if bias is None else _shared(bias) for bias in biases),
                    tier=tier,
                )
                size = program.workspace_bytes(most_steps)
                workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
                self._recurrences.append(api.Recurrence(program, workspace.data_ptr(), size, most_steps, stream))
                self._workspaces.append(workspace)
                self._programs.append(program)
                self._input_weights.append(getattr(module, "weight_ih" + suffix).detach().clone())
            torch.cuda.current_stream().synchronize()  # the workspaces are then filled for every stream

    def _is_dense_faster(self, precision, steps):
        own_us = programs_us = 0
        at_once = self.num_layers if self.directions == 1 and self.num_layers <= nn.MOST_AT_ONCE else 1
        for layer in range(0, self.num_layers, at_once):
            input = self.input_size if layer == 0 else self.directions * self.hidden_size
            step_us = max(fit.step_us for fit in self._fits[layer * self.directions : (layer + at_once) * self.directions])
            sizes = input, self.hidden_size, self.batch, steps, self.directions, at_once
            try:
                prices = api.Training.inference_us(step_us, self.cell, precision, *sizes)
            except api.DoesNotFit:
                return False
            own_us, programs_us = own_us + prices[0], programs_us + prices[1]
        return self.batch > _MOST_OF_PROGRAM or own_us <= programs_us

    def _as_dense(self, module):
        """onchip's module with the same weights."""
        kind = nn.LSTM if self.cell == "lstm" else nn.GRU
        sizes = self.input_size, self.hidden_size, self.num_layers, module.bias, self.batch_first, 0.0, self.directions == 2
        dense = kind(*sizes, device=self.device, dtype=self.dtype).eval().requires_grad_(False)
        for name, weights in dense.named_parameters():
            weights.copy_(getattr(module, name).detach())
        return dense

    @property
    def fits(self):
        """A Fit per layer and direction, of programs that skip zeros."""
        return self._fits

    def explain(self):
        """On what it runs: a plan of each layer and direction, or, once it has run, what onchip.LSTM or GRU says."""
        return self._dense.explain() if self._dense is not None else "\n".join(fit.plan for fit in self._fits)

    def extra_repr(self):
        return f"{self.cell}, {self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, batch={self.batch}"

    def check(self):
        """Waits for the current stream; raises onchip.CudaError if a kernel has given up waiting since the last call, in a run or
        in a replayed graph. From then until this call, all outputs are NaN."""
        if self._dense is not None:
            return self._dense.check()
        problems = []
        with torch.cuda.device(self.device):
            for recurrence in self._recurrences:
                try:
                    recurrence.check(torch.cuda.current_stream().cuda_stream)
                except api.CudaError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]

    def forward(self, input, hx=None):
        """As that of the torch module: padded, packed or unbatched input. May be captured in a CUDA graph, but for
        packed input, after a first run that has loaded torch's own kernels; one run at a time."""
        if torch.is_grad_enabled() and (input.data if isinstance(input, PackedSequence) else input).requires_grad:
            raise RuntimeError("no gradients: this module is for inference; call it in torch.no_grad()")
        with torch.no_grad(), torch.cuda.device(self.device):
            if self._dense is not None or (self._few is not None and self._steps(input) <= _FEW_STEPS):
                return self._run_dense(input, hx)
            if isinstance(input, PackedSequence):
                return self._packed(input, hx)
            if input.dim() == 2:
                output, final = self._padded(input.unsqueeze(1), self._each(hx, lambda state: state.unsqueeze(1)))
                return output.squeeze(1), self._each(final, lambda state: state.squeeze(1))
            if input.dim() != 3:
                raise ValueError(f"the input has {input.dim()} dimensions; expected 2 or 3")
            if self.batch_first:
                input = input.transpose(0, 1)
            output, final = self._padded(input, hx)
            return output.transpose(0, 1) if self.batch_first else output, final

    def _steps(self, input):
        if isinstance(input, PackedSequence):
            return len(input.batch_sizes)
        return input.shape[1 if input.dim() == 3 and self.batch_first else 0]

    def _run_dense(self, input, hx):
        is_packed = isinstance(input, PackedSequence)
        if not is_packed and input.dim() not in (2, 3):
            raise ValueError(f"the input has {input.dim()} dimensions; expected 2 or 3")
        if is_packed:
            steps, batch = len(input.batch_sizes), int(input.batch_sizes[0])
        else:
            steps, batch = (len(input), 1) if input.dim() == 2 else input.shape[:2][:: -1 if self.batch_first else 1]
        self._check_values(input.data if is_packed else input, steps, batch)
        is_batched = is_packed or input.dim() == 3
        self._initial(hx if is_batched else self._each(hx, lambda state: state.unsqueeze(1)), batch)
        return self._few(input, hx)

    def _check_values(self, input, steps, batch):
        size = input.shape[-1]
        if size != self.input_size or not 1 <= batch <= self.batch or steps < 1:
            raise ValueError(
                f"the input has {steps} steps of {batch} samples of size {size}; "
                f"expected 1 or more of 1 to {self.batch} of {self.input_size}"
            )
        if input.dtype != self.dtype or input.device != self.device:
            raise ValueError(f"the input is {input.dtype} on {input.device}; expected {self.dtype} on {self.device}")

    def step(self, input, hx=None):
        """One step: input [batch, input size] -> output [batch, directions * hidden], and the state for the next call.
        A launch for each layer of an LSTM or GRU of fp16 or bf16; else as much as a sequence of one step."""
        if self.directions != 1:
            raise ValueError("a network of both directions cannot be run one step at a time")
        time = 1 if self.batch_first else 0
        output, final = self.forward(input.unsqueeze(time), hx)
        return output.squeeze(time), final

    @staticmethod
    def _each(states, change):
        if states is None:
            return None
        return tuple(change(state) for state in states) if isinstance(states, tuple) else change(states)

    def _packed(self, packed, hx):
        # Padded in the caller's order of samples, in which hx and the final state are, too.
        input, lengths = pad_packed_sequence(packed)
        output, final = self._padded(input, hx, lengths.tolist())
        if packed.sorted_indices is not None:
            output = output.index_select(1, packed.sorted_indices)
            lengths = lengths[packed.sorted_indices.cpu()]
        data = pack_padded_sequence(output, lengths).data
        return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices), final

    def _initial(self, hx, batch):
        """h and c, [layers * directions, self.batch, hidden] each; None: zeros."""
        if hx is None:
            return None, None
        states = hx if self.cell == "lstm" else (hx,)
        if len(states) != (2 if self.cell == "lstm" else 1) or not all(torch.is_tensor(state) for state in states):
            raise ValueError("hx is not what the cell takes: (h, c) for an LSTM, else h")
        expected = (self.num_layers * self.directions, batch, self.hidden_size)
        for state in states:
            if tuple(state.shape) != expected or state.dtype != self.dtype or state.device != self.device:
                raise ValueError(
                    f"hx is {state.dtype} {list(state.shape)} on {state.device}; "
                    f"expected {self.dtype} {list(expected)} on {self.device}"
                )
        padded = [self._with_full_batch(state).contiguous() for state in states]
        return padded[0], padded[1] if self.cell == "lstm" else None

    def _with_full_batch(self, tensor):  # [any, batch, any] -> [any, self.batch, any]
        return torch.nn.functional.pad(tensor, (0, 0, 0, self.batch - tensor.shape[1]))

    def _padded(self, input, hx, lengths=None):
        steps, batch, _ = input.shape
        self._check_values(input, steps, batch)
        initial, initial_cell = self._initial(hx, batch)
        if lengths is not None:
            lengths = list(lengths) + [1] * (self.batch - batch)
        values = self._with_full_batch(input)
        places = self.num_layers * self.directions
        final = values.new_empty(places, self.batch, self.hidden_size)
        final_cell = torch.empty_like(final) if self.cell == "lstm" else None
        stream = torch.cuda.current_stream().cuda_stream
        for layer in range(self.num_layers):
            output = values.new_empty(steps, self.batch, self.directions * self.hidden_size)
            for direction in range(self.directions):
                place = layer * self.directions + direction
                projected = torch.nn.functional.linear(values, self._input_weights[place])
                self._recurrences[place].enqueue(
                    stream,
                    steps,
                    input=projected.data_ptr(),
                    initial=_address(initial, place),
                    initial_cell=_address(initial_cell, place),
                    output=output.data_ptr() + direction * self.hidden_size * output.element_size(),
                    final_state=_address(final, place),
                    final_cell=_address(final_cell, place),
                    output_stride=self.directions * self.hidden_size,
                    lengths=lengths,
                    backward=direction == 1,
                )
            values = output
        final = final[:, :batch]
        if self.cell == "lstm":
            return values[:, :batch], (final, final_cell[:, :batch])
        return values[:, :batch], final


def _address(states, place):
    return None if states is None else states[place].data_ptr()
