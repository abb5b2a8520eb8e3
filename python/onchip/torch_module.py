# SPDX-License-Identifier: Apache-2.0
"""Pruned torch.nn.LSTM, GRU and RNN modules on the chip. Imports torch; the package imports this at its first use."""
import torch
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import api

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
    batch       1 to 64: the most samples of an input; fewer cost as much
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
        chip = _chip(chip, self.device)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            for place in range(self.num_layers * self.directions):
                suffix = f"_l{place // self.directions}" + ("_reverse" if place % self.directions else "")
                biases = (
                    (getattr(module, "bias_ih" + suffix), getattr(module, "bias_hh" + suffix))
                    if module.bias
                    else (None, None)
                )
                program = api.Program(
                    chip,
                    self.cell,
                    api.Matrix.dense(_shared(getattr(module, "weight_hh" + suffix))),
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

    @property
    def fits(self):
        """A Fit per layer and direction."""
        return [program.fit for program in self._programs]

    def extra_repr(self):
        return f"{self.cell}, {self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, batch={self.batch}"

    def check(self):
        """Waits for the current stream; raises onchip.CudaError if a kernel has given up waiting since the last call, in a run or
        in a replayed graph. From then until this call, all outputs are NaN."""
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

    def step(self, input, hx=None):
        """One step: input [batch, input size] -> output [batch, directions * hidden], and the state for the next call.
        Costs as much as a sequence of one step: a launch per layer loads the weights into the SMs."""
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
        steps, batch, size = input.shape
        if size != self.input_size or not 1 <= batch <= self.batch or steps < 1:
            raise ValueError(
                f"the input has {steps} steps of {batch} samples of size {size}; "
                f"expected 1 or more of 1 to {self.batch} of {self.input_size}"
            )
        if input.dtype != self.dtype or input.device != self.device:
            raise ValueError(f"the input is {input.dtype} on {input.device}; expected {self.dtype} on {self.device}")
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
