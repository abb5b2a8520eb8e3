# SPDX-License-Identifier: Apache-2.0
"""Chips, matrices, fits, programs and recurrences as Python objects; kernels/api/onchip.h says what they are."""
import ctypes
import dataclasses
import json
import os
from typing import Tuple

from . import library, tensors

CELLS = ("relu", "tanh", "lstm", "gru")
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
PRECISIONS = ("fp16", "bf16", "fp32", "fp8")
STASHES = ("gates", "cells")
TIERS = ("registers", "shared_memory", "streamed")


class ApiError(RuntimeError):
    """What the library refused, in its words."""


class InputError(ApiError, ValueError):
    """An argument or a file is not what it should be."""


class DoesNotFit(ApiError):
    """The network has no kernel on this chip."""


class CudaError(ApiError):
    """CUDA or its compiler refused, or there is no device."""


_ERRORS = {library.INVALID: InputError, library.DOES_NOT_FIT: DoesNotFit, library.CUDA: CudaError}


def _function(name):
    try:
        return getattr(library.load(), name)
    except AttributeError:
        raise CudaError(f"{name}: this libonchip.so was built without CUDA") from None


def _call(name, *arguments):
    error = library.Error()
    status = _function(name)(*arguments, ctypes.byref(error))
    if status != library.OK:
        raise _ERRORS.get(status, ApiError)(error.message.decode(errors="replace"))


def _text(name, *arguments):
    """What a function writes as a text of its own."""
    text = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(text))
    try:
        return ctypes.string_at(text).decode()
    finally:
        _function("onchip_text_destroy")(text)


def _number(words, word, what):
    if word not in words:
        raise InputError(f"unknown {what} {word!r}; expected one of {', '.join(words)}")
    return words.index(word)


class _Handle:
    """Owns what a create function made."""

    _kind = ""

    def __init__(self, create, *arguments):
        self._handle = ctypes.c_void_p()
        self._destroy = _function(f"onchip_{self._kind}_destroy")  # modules may be gone at the end
        _call(f"onchip_{self._kind}_{create}", *arguments, ctypes.byref(self._handle))

    def __del__(self):
        handle = getattr(self, "_handle", None)
        if handle:
            self._destroy(handle)
            self._handle = None


class Chip(_Handle):
    """A shipped chip by name, or a chip file."""

    _kind = "chip"

    def __init__(self, name_or_file):
        super().__init__("create", os.fsencode(name_or_file))

    def set(self, assignment):
        """Changes a number: chip.set("sm.count=120")."""
        _call("onchip_chip_set", self._handle, assignment.encode())


class Matrix(_Handle):
    """Recurrent weights [gates * hidden, hidden] without their zeros."""

    _kind = "matrix"

    @classmethod
    def dense(cls, values):
        """Of a 2-D tensor or buffer of fp32 in host memory; zeros are pruned weights."""
        view = tensors.host_floats(values, "the matrix")
        if len(view.shape) != 2:
            raise InputError(f"the matrix has {len(view.shape)} dimensions; expected 2")
        return cls("create_dense", *view.shape, view.pointer)

    @classmethod
    def from_file(cls, file, tensor=None):
        """Of a .safetensors, .safetensors.index.json, .npy, .mtx or .smtx file, also compressed."""
        return cls("create_from_file", os.fsencode(file), None if tensor is None else tensor.encode())

    def _size(self):
        rows, columns, nnz = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int64()
        _call("onchip_matrix_size", self._handle, ctypes.byref(rows), ctypes.byref(columns), ctypes.byref(nnz))
        return rows.value, columns.value, nnz.value

    @property
    def shape(self):
        return self._size()[:2]

    @property
    def nnz(self):
        return self._size()[2]


@dataclasses.dataclass(frozen=True)
class Resource:
    name: str
    unit: str
    used: float
    available: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """Whether a network fits: all its weights stay on the chip; or only runs; and why. Times are microseconds per step; 0
    where it does not run. `tier`: where weights lie at most."""

    fits: bool
    why: str
    binding: str
    resources: Tuple[Resource, ...]
    streamed_share: float
    step_us: float
    low_us: float
    high_us: float
    floor_us: float
    plan: str
    runs: bool
    tier: str

    @classmethod
    def _of(cls, fit):
        resources = tuple(Resource(r.name.decode(), r.unit.decode(), r.used, r.available) for r in fit.resources)
        return cls(
            bool(fit.fits), fit.why.decode(), resources[fit.binding].name, resources, fit.streamed_share, fit.step_us,
            fit.low_us, fit.high_us, fit.floor_us, fit.plan.decode(), bool(fit.runs), TIERS[fit.tier],
        )  # fmt: skip


def _chip(chip):
    return chip if isinstance(chip, Chip) else Chip(chip)


def _network(cell, precision, hidden, batch, density, tier):
    return library.Network(
        _number(CELLS, cell, "cell"), _number(PRECISIONS, precision, "precision"), hidden, batch, density,
        _number(TIERS, tier, "tier"),
    )  # fmt: skip


def fit(chip, cell, hidden=None, batch=1, density=1.0, precision="fp16", tier="streamed", matrix=None):
    """Does it fit, and why? With a Matrix its non-zeros and its hidden size count, else a random mask of the density.
    `tier`: where weights may lie at most; "shared_memory" asks for a network that stays on the SMs."""
    if matrix is not None and hidden is None:
        hidden = matrix.shape[1]
    if hidden is None:
        raise InputError("neither a hidden size nor a matrix is given")
    chip, asked, answer = _chip(chip), _network(cell, precision, hidden, batch, density, tier), library.Fit()
    _call(
        "onchip_fit_network", chip._handle, ctypes.byref(asked), None if matrix is None else matrix._handle,
        ctypes.byref(answer),
    )  # fmt: skip
    return Fit._of(answer)


def largest_hidden(chip, cell, batch=1, density=1.0, precision="fp16", tier="shared_memory", granule=32):
    """The largest number of hidden units, a multiple of `granule`, that fits; 0 if none does."""
    chip, asked, hidden = _chip(chip), _network(cell, precision, granule, batch, density, tier), ctypes.c_int32()
    _call("onchip_largest_hidden", chip._handle, ctypes.byref(asked), granule, ctypes.byref(hidden))
    return hidden.value


def ask_text(chip, question, matrix=None):
    """The answer to a question, both JSON texts: byte for byte what the command prints with --format json. What stands
    in a question: model/ask/ask.hpp."""
    chip = _chip(chip)
    return _text("onchip_ask", chip._handle, question.encode(), None if matrix is None else matrix._handle)


def ask(chip, question, matrix=None):
    """The answer to any question, both dicts, e.g. {"ask": "fit", "mode": "train", "network": {"cell": "lstm", "batch": 64}}
    or {"ask": "predict", "network": "spdnn:1024x120", "gpus": 2}. What stands in a question: model/ask/ask.hpp."""
    return json.loads(ask_text(chip, json.dumps(question), matrix))


def _ask(what, chip, cell, matrix, hidden, batch, density, precision, constraints, steps=None, **others):
    network = {"cell": cell, "hidden": hidden, "batch": batch, "density": density, "precision": precision}
    network["steps"] = steps
    question = {"ask": what, "network": network, "constraints": constraints, **others}
    for part in (question, network):
        for key in [key for key, value in part.items() if value is None]:
            del part[key]
    return ask(chip, question, matrix)


def predict(chip, cell, hidden=None, batch=1, density=None, precision="fp16", mask=None, matrix=None, plan=None,
            every_family=False, steps=None, layers=None, bidirectional=None, input=None, **constraints):  # fmt: skip
    """A step's time in named terms, with interval, floor and plan: a dict, what `onchip predict --format json` prints.
    `constraints` fix what the plan must be: family, tier, sms, storage, ...; every_family: the best plan of each. With
    any of layers, bidirectional and input (elements of the first layer's input): also the time of a forward pass of
    `steps`, with its input products."""
    return _ask("rank" if every_family else "predict", chip, cell, matrix, hidden, batch, density, precision, constraints,
                steps, mask=mask, plan=plan, layers=layers, bidirectional=bidirectional, input=input)  # fmt: skip


def what_if(chip, cell, changes=(), hidden=None, batch=1, density=None, precision="fp16", mask=None, matrix=None,
            granule=32, target=(), vary=(), price=(), **constraints):  # fmt: skip
    """The network on the chip and on one with changes (["sm.count=+10%"]), and which numbers its answer hangs on: a
    dict, what `onchip what-if --format json` prints. Without a hidden size: the largest that fits. With a target
    (["hidden=8192"], ["step_us<=2"]): the least of the varied numbers (["shared_memory.per_sm"]) that reaches it."""
    return _ask("what_if", chip, cell, matrix, hidden, batch, density, precision, constraints, mask=mask,
                granule=granule, set=list(changes), target=list(target), vary=list(vary),
                price=list(price))  # fmt: skip


def _of_sweep(axes, column=(), where=None, keep_front=None, rows=None, granule=None, changes=(), **fixed):
    question = {"axis": list(axes), "column": list(column), "where": where, "keep_front": keep_front, "rows": rows,
                "granule": granule, "set": list(changes), "network": fixed}  # fmt: skip
    return {key: value for key, value in question.items() if value not in (None, [], {})}


def sweep(chip, *axes, **options):
    """Rows for all combinations of the axes' values: a list of dicts, what `onchip sweep --format jsonl` prints. An axis is
    "hidden=512:4096:512", or {"hidden": [512, 1024], "batch": [1, 4]}, whose keys move together. column, where,
    keep_front, rows, granule and changes (["sm.count=+10%"]) are as the command's; every other option fixes a key: cell,
    density, family, network, ..."""
    return json.loads(ask_text(chip, json.dumps({"ask": "sweep", **_of_sweep(axes, **options)})))["rows"]


def pareto(chip, objectives, *axes, within=None, by=None, **options):
    """The front of the rows of a sweep, which is asked as above, or of `rows`, a list of dicts: a dict, what `onchip pareto
    --format json` prints. objectives="step_us:min,hidden:max"; within="5%" leaves so many rows out that each has one as
    near; by="batch" finds a front for each value of that column."""
    question = {"ask": "pareto", "objectives": objectives, **_of_sweep(axes, **options)}
    if options.get("rows") == []:
        question["rows"] = []
    question |= {key: value for key, value in (("within", within), ("by", by)) if value is not None}
    return json.loads(ask_text(chip, json.dumps(question)))


class Program(_Handle):
    """A network planned for a chip, compiled, and its weights encoded; made without a GPU if `architecture` is given
    ("sm_90"), else for the current device. Biases: [gates * hidden], fp32, host; None: zeros."""

    _kind = "program"

    def __init__(self, chip, cell, matrix, batch=1, precision="fp16", input_bias=None, recurrent_bias=None,
                 architecture=None, tier="streamed"):  # fmt: skip
        self.cell, self.precision, self.batch = cell, precision, batch
        rows, self.hidden = matrix.shape
        chip, asked = _chip(chip), _network(cell, precision, self.hidden, batch, 0.0, tier)
        biases = []
        for name, bias in (("the input bias", input_bias), ("the recurrent bias", recurrent_bias)):
            biases.append(None if bias is None else tensors.host_floats(bias, name))
            if bias is not None and biases[-1].shape != (rows,):
                raise InputError(f"{name} has shape {list(biases[-1].shape)}; expected [{rows}]")
        super().__init__(
            "create", chip._handle, ctypes.byref(asked), matrix._handle,
            *(None if bias is None else bias.pointer for bias in biases),
            None if architecture is None else architecture.encode(),
        )  # fmt: skip

    @property
    def gates(self):
        return GATES[self.cell]

    def workspace_bytes(self, most_steps):
        bytes_needed = ctypes.c_size_t()
        _call("onchip_program_workspace_bytes", self._handle, most_steps, ctypes.byref(bytes_needed))
        return bytes_needed.value

    @property
    def fit(self):
        answer = library.Fit()
        _call("onchip_program_fit", self._handle, ctypes.byref(answer))
        return Fit._of(answer)

    @property
    def registers(self):
        registers = ctypes.c_int32()
        _call("onchip_program_registers", self._handle, ctypes.byref(registers))
        return registers.value


class Recurrence(_Handle):
    """A program on the current device, in the caller's memory. Streams are cudaStream_t as ints, 0 the default one.
    Device tensors are given as DLPack tensors, whose type and shape are checked, or as addresses, which are not."""

    _kind = "recurrence"

    def __init__(self, program, workspace, workspace_bytes, most_steps, stream=0):
        """`workspace`: the address of device memory, aligned to 256 bytes, that outlives every run."""
        self.program = program
        super().__init__("create", program._handle, workspace, workspace_bytes, most_steps, stream or None)

    def enqueue(self, stream, steps, input=None, initial=None, initial_cell=None, output=None, final_state=None,
                final_cell=None, input_stride=0, output_stride=0, lengths=None, backward=False):  # fmt: skip
        """Enqueues a batch of sequences; may be captured in a graph. Shapes as in onchip_sequences. Tensors must stay
        alive until the stream is done with them."""
        p, kept = self.program, []
        state = (p.batch, p.hidden)

        def pointer(tensor, name, shape):
            return tensors.device_pointer(tensor, name, shape, p.precision, stream, kept)

        sequences = library.Sequences(
            steps=steps,
            input=pointer(input, "input", (steps, p.batch, p.gates * p.hidden)),
            initial=pointer(initial, "initial", state),
            initial_cell=pointer(initial_cell, "initial_cell", state),
            output=pointer(output, "output", (steps, *state)),
            final_state=pointer(final_state, "final_state", state),
            final_cell=pointer(final_cell, "final_cell", state),
            input_stride=input_stride,
            output_stride=output_stride,
            backward=int(backward),
        )
        if lengths is not None:
            if len(lengths) != p.batch:
                raise InputError(f"there are {len(lengths)} lengths; expected one for each of {p.batch} samples")
            sequences.lengths = (ctypes.c_int32 * p.batch)(*lengths)
        _call("onchip_recurrence_enqueue", self._handle, stream or None, ctypes.byref(sequences))

    def step(self, stream, input, state, cell=None):
        """One step; state [batch, hidden] and, of an LSTM, cell are read and replaced."""
        p, kept = self.program, []
        shapes = ((p.batch, p.gates * p.hidden), (p.batch, p.hidden), (p.batch, p.hidden))
        pointers = [
            tensors.device_pointer(tensor, name, shape, p.precision, stream, kept)
            for tensor, name, shape in zip((input, state, cell), ("input", "state", "cell"), shapes)
        ]
        _call("onchip_recurrence_step", self._handle, stream or None, *pointers)

    def check(self, stream=0):
        """Waits for the stream; raises CudaError if a kernel has given up waiting since the last call: from then until this
        call, all outputs are NaN."""
        _call("onchip_recurrence_check", self._handle, stream or None)


class Training(_Handle):
    """Forward and all gradients of one layer, planned for the current device. Arrays are addresses of device memory, a dict
    for each direction, by their names in onchip_training_arrays, where their shapes are, too. length_bytes: of each of
    `lengths`, 4 or 8; 0: none are given. stash: "gates", or "cells", from which backward computes the gates anew. mask: a
    Matrix, which says where W_hh of an LSTM has weights, for ever."""

    _kind = "training"

    @staticmethod
    def _layer(cell, precision, *sizes, stash="gates"):
        kinds = _number(CELLS, cell, "cell"), _number(PRECISIONS, precision, "precision")
        return library.Layer(*kinds, *sizes, _number(STASHES, stash, "stash"))

    @staticmethod
    def library(is_inference, cell, precision, input, hidden, batch, steps, directions=1, length_bytes=0):
        """Why cuDNN is priced lower than these kernels at this size, with or without gradients; empty if it is not. Compiles
        nothing."""
        layer = Training._layer(cell, precision, input, hidden, batch, steps, directions, length_bytes)
        return _text("onchip_training_library", ctypes.byref(layer), int(is_inference))

    @staticmethod
    def memory(layers, cell, precision, input, hidden, batch, steps, directions=1, length_bytes=0, stash="gates"):
        """Bytes of an iteration of so many such layers: kept from forward to backward, and the most at once beside the input and
        the weights. Compiles nothing."""
        layer = Training._layer(cell, precision, input, hidden, batch, steps, directions, length_bytes, stash=stash)
        kept, peak = ctypes.c_size_t(), ctypes.c_size_t()
        _call("onchip_training_memory", ctypes.byref(layer), layers, ctypes.byref(kept), ctypes.byref(peak))
        return kept.value, peak.value

    def __init__(
        self, cell, precision, input, hidden, batch, steps, directions=1, length_bytes=0, stash="gates", mask=None
    ):
        self._directions = directions
        layer = self._layer(cell, precision, input, hidden, batch, steps, directions, length_bytes, stash=stash)
        if mask is None:
            super().__init__("create", ctypes.byref(layer))
        else:
            super().__init__("create_sparse", ctypes.byref(layer), mask._handle)
        workspace, kept, forward = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        _call("onchip_training_bytes", self._handle, ctypes.byref(workspace), ctypes.byref(kept))
        _call("onchip_training_forward_bytes", self._handle, ctypes.byref(forward))
        self.workspace_bytes, self.kept_bytes, self.forward_bytes = workspace.value, kept.value, forward.value
        self.plan = _text("onchip_training_plan", self._handle)

    def _run(self, name, stream, arrays):
        if len(arrays) != self._directions:
            raise InputError(f"there are arrays of {len(arrays)} directions; expected {self._directions}")
        of_directions = (library.TrainingArrays * len(arrays))(*(library.TrainingArrays(**of) for of in arrays))
        _call(name, self._handle, stream or None, of_directions)

    def forward(self, stream, arrays):
        """Enqueues; may be captured in a graph. Without `kept` and `cells`, no backward may follow, and the workspace is of
        forward_bytes, where that is not 0."""
        self._run("onchip_training_forward", stream, arrays)

    def backward(self, stream, arrays):
        """Likewise; overwrites the gates, if forward kept them."""
        self._run("onchip_training_backward", stream, arrays)

    def check(self, stream):
        """Waits for the stream; CudaError if a kernel on the device has given up waiting since the last call, in a replayed graph,
        too. What it should have computed is NaN."""
        _call("onchip_training_check", self._handle, stream or None)


def _attention(precision, *sizes, **arrays):
    return library.Attention(_number(PRECISIONS[:3], precision, "precision"), *sizes, **arrays)


def attention_workspace_bytes(precision, batch, queries, keys, hidden):
    """Of device memory, for a backward of `attention`."""
    workspace = ctypes.c_size_t()
    given = _attention(precision, batch, queries, keys, hidden)
    _call("onchip_attention_workspace_bytes", ctypes.byref(given), ctypes.byref(workspace))
    return workspace.value


def attention(which, stream, precision, batch, queries, keys, hidden, **arrays):
    """Enqueues a "forward" or a "backward" of MLP attention's scores; may be captured in a graph. arrays: addresses of device
    memory, by their names in onchip_attention, where their shapes are, too."""
    given = _attention(precision, batch, queries, keys, hidden, **arrays)
    _call(f"onchip_attention_{which}", ctypes.byref(given), stream or None)
