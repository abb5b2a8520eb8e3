# SPDX-License-Identifier: Apache-2.0
"""Chips, matrices, fits, programs and recurrences as Python objects; kernels/api/onchip.h says what they are."""
from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import difflib
import json
import os
import sys
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Tuple, Union, overload

from . import arrow, library, tensors
from .rows import Front, Rows

CELLS = ("relu", "tanh", "lstm", "gru")
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
PRECISIONS = ("fp16", "bf16", "fp32", "fp8")
STASHES = ("gates", "cells", "replay")
TIERS = ("registers", "shared_memory", "streamed")

Answer = Dict[str, Any]  # of JSON
ChipLike = Union[str, "os.PathLike[str]", "Chip"]  # a shipped chip's name, a chip file, or what was made of either
Axis = Union[str, Mapping[str, Any]]  # "hidden=512:4096:512", or {"hidden": [512, 1024], "batch": [1, 4]}
Texts = Union[str, Sequence[str]]


class ApiError(RuntimeError):
    """What the library refused, in its words."""


class InputError(ApiError, ValueError):
    """An argument or a file is not what it should be."""


class DoesNotFit(ApiError):
    """The network has no kernel on this chip."""


class CudaError(ApiError):
    """CUDA or its compiler refused, or there is no device."""


_ERRORS = {library.INVALID: InputError, library.DOES_NOT_FIT: DoesNotFit, library.CUDA: CudaError}


def _function(name: str) -> Any:
    try:
        return getattr(library.load(), name)
    except AttributeError:
        raise CudaError(f"{name}: this libonchip.so was built without CUDA") from None


def _call(name: str, *arguments: Any) -> None:
    error = library.Error()
    status = _function(name)(*arguments, ctypes.byref(error))
    if status != library.OK:
        raise _ERRORS.get(status, ApiError)(error.message.decode(errors="replace"))


def _text(name: str, *arguments: Any) -> str:
    """What a function writes as a text of its own."""
    text = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(text))
    try:
        return ctypes.string_at(text).decode()
    finally:
        _function("onchip_text_destroy")(text)


def _number(words: Sequence[str], word: str, what: str) -> int:
    if word not in words:
        raise InputError(f"unknown {what} {word!r}; expected one of {', '.join(words)}")
    return words.index(word)


class _Handle:
    """Owns what a create function made."""

    _kind = ""

    def __init__(self, create: str, *arguments: Any) -> None:
        self._handle = ctypes.c_void_p()
        self._destroy = _function(f"onchip_{self._kind}_destroy")  # modules may be gone at the end
        _call(f"onchip_{self._kind}_{create}", *arguments, ctypes.byref(self._handle))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._destroy(handle)
            self._handle = None


class Chip(_Handle):
    """A shipped chip by name, or a chip file."""

    _kind = "chip"

    def __init__(self, name_or_file: Union[str, os.PathLike[str]]) -> None:
        super().__init__("create", os.fsencode(name_or_file))

    def set(self, assignment: str) -> None:
        """Changes a number: chip.set("sm.count=120")."""
        _call("onchip_chip_set", self._handle, assignment.encode())


class Matrix(_Handle):
    """Recurrent weights [gates * hidden, hidden] without their zeros."""

    _kind = "matrix"

    @classmethod
    def dense(cls, values: Any) -> Matrix:
        """Of a 2-D tensor or buffer of fp32 in host memory; zeros are pruned weights."""
        view = tensors.host_floats(values, "the matrix")
        if len(view.shape) != 2:
            raise InputError(f"the matrix has {len(view.shape)} dimensions; expected 2")
        return cls("create_dense", *view.shape, view.pointer)

    @classmethod
    def from_file(cls, file: Union[str, os.PathLike[str]], tensor: Optional[str] = None) -> Matrix:
        """Of a .safetensors, .safetensors.index.json, .npy, .mtx or .smtx file, also compressed."""
        return cls("create_from_file", os.fsencode(file), None if tensor is None else tensor.encode())

    def _size(self) -> Tuple[int, int, int]:
        rows, columns, nnz = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int64()
        _call("onchip_matrix_size", self._handle, ctypes.byref(rows), ctypes.byref(columns), ctypes.byref(nnz))
        return rows.value, columns.value, nnz.value

    @property
    def shape(self) -> Tuple[int, int]:
        rows, columns, _ = self._size()
        return rows, columns

    @property
    def nnz(self) -> int:
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
    def _of(cls, fit: Any) -> Fit:
        resources = tuple(Resource(r.name.decode(), r.unit.decode(), r.used, r.available) for r in fit.resources)
        return cls(
            bool(fit.fits), fit.why.decode(), resources[fit.binding].name, resources, fit.streamed_share, fit.step_us,
            fit.low_us, fit.high_us, fit.floor_us, fit.plan.decode(), bool(fit.runs), TIERS[fit.tier],
        )  # fmt: skip


def _chip(chip: ChipLike) -> Chip:
    return chip if isinstance(chip, Chip) else Chip(chip)


def _network(cell: str, precision: str, hidden: int, batch: int, density: float, tier: str) -> library.Network:
    return library.Network(
        _number(CELLS, cell, "cell"), _number(PRECISIONS, precision, "precision"), hidden, batch, density,
        _number(TIERS, tier, "tier"),
    )  # fmt: skip


# Where a keyword stands in a question. What is none of these is of the plan, and stands in "constraints".
_OF_NETWORK = ("cell", "hidden", "batch", "steps", "density", "precision")
_OF_QUESTION = ("mode", "network", "mask", "seed", "plan", "stash", "memory", "layers", "bidirectional", "input", "images",
                "alive", "sample", "gpus", "streams", "granule", "set", "target", "vary", "price")  # fmt: skip
_TEXTS = ("axis", "column", "set", "target", "vary", "price")  # lists of texts; one may stand alone


def _values(options: Mapping[str, Any]) -> Answer:
    """Keywords as a question has them, without those that are None."""
    values = {"set" if key == "changes" else key: value for key, value in options.items() if value is not None}
    for key in values.keys() & set(_TEXTS):
        values[key] = [values[key]] if isinstance(values[key], (str, Mapping)) else list(values[key])
    if isinstance(values.get("memory"), int):
        values["memory"] = f"{values['memory']} B"
    return values


def _nearest(key: str, keys: Sequence[str]) -> str:
    """A misspelled key stands where the one that is meant does: there the library names it."""
    return next(iter(difflib.get_close_matches(key, keys, 1, 0.8)), key)


def _question(what: str, options: Mapping[str, Any]) -> Answer:
    values = _values(options)
    question: Answer = {"ask": what}
    if "network" in values:
        for key in sorted(values.keys() & set(_OF_NETWORK)):
            raise InputError(f"question: '{key}' is not of a feed-forward network")
        return {**question, **values}
    question["network"] = {"batch": 1}
    for key, value in values.items():
        near = _nearest(key, _OF_NETWORK + _OF_QUESTION)
        is_of_plan = near not in _OF_NETWORK + _OF_QUESTION
        part = question.setdefault("constraints", {}) if is_of_plan else question["network"] if near in _OF_NETWORK else question
        part[key] = value
    return question


def _plain(value: Any) -> Any:
    """What json has no word for: of NumPy, a path, a range, ..."""
    return value.tolist() if hasattr(value, "tolist") else os.fspath(value) if hasattr(value, "__fspath__") else list(value)


def _ask(chip: ChipLike, question: Mapping[str, Any], matrix: Optional[Matrix] = None) -> Answer:
    return json.loads(ask_text(chip, json.dumps(question, default=_plain), matrix))


def ask_text(chip: ChipLike, question: str, matrix: Optional[Matrix] = None) -> str:
    """The answer to a question, both JSON texts: byte for byte what the command prints with --format json. What stands
    in a question: model/ask/ask.hpp."""
    chip = _chip(chip)
    return _text("onchip_ask", chip._handle, question.encode(), None if matrix is None else matrix._handle)


def ask(chip: ChipLike, question: Mapping[str, Any], matrix: Optional[Matrix] = None) -> Answer:
    """The answer to any question, both dicts, e.g. {"ask": "fit", "mode": "train", "network": {"cell": "lstm", "batch": 64}}
    or {"ask": "predict", "network": "spdnn:1024x120", "gpus": 2}. What stands in a question: model/ask/ask.hpp."""
    return _ask(chip, question, matrix)


@overload
def fit(chip: ChipLike, cell: str, hidden: Optional[int] = None, batch: Optional[int] = None,
        density: Optional[float] = None, precision: str = "fp16", tier: str = "streamed",
        matrix: Optional[Matrix] = None) -> Fit: ...  # fmt: skip
@overload
def fit(chip: ChipLike, cell: Optional[str] = None, hidden: Optional[int] = None, batch: Optional[int] = None,
        density: Optional[float] = None, precision: Optional[str] = None, tier: Optional[str] = None,
        matrix: Optional[Matrix] = None, *, mode: Literal["train"], **options: Any) -> Answer: ...  # fmt: skip
@overload
def fit(chip: ChipLike, *, network: str, **options: Any) -> Answer: ...
def fit(chip: ChipLike, cell: Optional[str] = None, hidden: Optional[int] = None, batch: Optional[int] = None,
        density: Optional[float] = None, precision: Optional[str] = None, tier: Optional[str] = None,
        matrix: Optional[Matrix] = None, **options: Any) -> Union[Fit, Answer]:  # fmt: skip
    """Does it stay on the chip, and why?

    Of a recurrent step: a Fit. With a Matrix its non-zeros and its hidden size count, else a random mask of the density (1
    where none is given). `tier`: where weights may lie at most, "streamed" unless given; "shared_memory" asks for a network
    that stays on the SMs. What does not fit is an answer.

    Of a training (mode="train") or of a feed-forward network (network="spdnn:1024x120"): a dict, what `onchip fit --format
    json` prints, with `fits`; keywords are those of predict(). A training without a hidden size has the largest that fits, in
    memory="24 GiB" where that is given. The same of a stack (layers=4): whether all layers are on the SMs at once.

    Raises InputError for a keyword or a value that is none."""
    named = {"cell": cell, "hidden": hidden, "batch": batch, "density": density, "precision": precision, "tier": tier}
    is_stack = any(options.get(key) is not None for key in ("layers", "bidirectional", "input"))
    if options.get("network") is not None or options.get("mode") == "train" or is_stack:
        return _ask(chip, _question("fit", {**named, **options}), matrix)
    for key in sorted(options.keys() - {"mode", "network"}):
        near = _nearest(key, (*named, "matrix"))
        meant = "" if near == key else f"; did you mean '{near}'?"
        raise InputError(f"question: '{key}' is not of the fit of a step, but may be of predict{meant}")
    if options.get("mode") not in (None, "inference"):
        raise InputError(f"question: mode: found \"{options['mode']}\": expected \"inference\" or \"train\"")
    if matrix is not None and hidden is None:
        hidden = matrix.shape[1]
    if hidden is None:
        raise InputError("neither a hidden size nor a matrix is given")
    asked = _network(cell, precision or "fp16", hidden, 1 if batch is None else batch, 1.0 if density is None else density,
                     tier or "streamed")  # fmt: skip
    chip, answer = _chip(chip), library.Fit()
    _call(
        "onchip_fit_network", chip._handle, ctypes.byref(asked), None if matrix is None else matrix._handle,
        ctypes.byref(answer),
    )  # fmt: skip
    return Fit._of(answer)


def largest_hidden(chip: ChipLike, cell: str, batch: int = 1, density: float = 1.0, precision: str = "fp16",
                   tier: str = "shared_memory", granule: int = 32) -> int:  # fmt: skip
    """The largest number of hidden units, a multiple of `granule`, that fits; 0 if none does."""
    chip, asked, hidden = _chip(chip), _network(cell, precision, granule, batch, density, tier), ctypes.c_int32()
    _call("onchip_largest_hidden", chip._handle, ctypes.byref(asked), granule, ctypes.byref(hidden))
    return hidden.value


def predict(chip: ChipLike, cell: Optional[str] = None, hidden: Optional[int] = None, batch: Optional[int] = None,
            density: Optional[float] = None, precision: Optional[str] = None, mask: Optional[str] = None,
            matrix: Optional[Matrix] = None, plan: Optional[str] = None, every_family: bool = False,
            steps: Optional[int] = None, layers: Optional[int] = None, bidirectional: Optional[bool] = None,
            input: Optional[int] = None, **options: Any) -> Answer:  # fmt: skip
    """A time in named terms, with interval, floor and plan: a dict, what `onchip predict --format json` prints.

    Of a recurrent step: its `step_us`. With any of layers, bidirectional and input (elements of the first layer's input): also
    the time of a forward pass of `steps`, with its input products. Other keywords fix what the plan must be: family, tier, sms,
    storage, ...

    streams=1: of a request to a stack of `layers` that stays on the chip (onchip.Stream): `predicted_us`.

    mode="train": of an iteration of a training, forward and all gradients: `us`, `step_us`, and `peak_bytes` of memory. Further
    keywords: stash ("gates", "cells" or "replay"), memory ("24 GiB", or bytes), family.

    network="spdnn:1024x120": of an inference of a feed-forward network: `ms`. Further keywords: images ("digits:60000", or their
    number), alive (a share of them), sample (so many are computed), gpus, plan.

    Of all: plan, a text; seed, of the mask; changes of the chip (["sm.count=+10%"]); every_family: the best plan of each. What is
    left out is as in the command, but batch, which is 1. Raises InputError for a keyword that the workload does not have."""
    return _ask(chip, _question("rank" if every_family else "predict", {
        "cell": cell, "hidden": hidden, "batch": batch, "density": density, "precision": precision, "steps": steps,
        "mask": mask, "plan": plan, "layers": layers, "bidirectional": bidirectional, "input": input, **options,
    }), matrix)  # fmt: skip


def what_if(chip: ChipLike, cell: Optional[str] = None, changes: Texts = (), hidden: Optional[int] = None,
            batch: Optional[int] = None, density: Optional[float] = None, precision: Optional[str] = None,
            mask: Optional[str] = None, matrix: Optional[Matrix] = None, granule: Optional[int] = None,
            target: Texts = (), vary: Texts = (), price: Texts = (), **options: Any) -> Answer:  # fmt: skip
    """The network on the chip and on one with changes (["sm.count=+10%"]), and which numbers its answer hangs on: a dict,
    what `onchip what-if --format json` prints. Other keywords are those of predict(). Without a hidden size: the largest
    that fits, a multiple of `granule` (32). With layers=4: a stack with all of them on the SMs at once. With a target (["hidden=8192"], ["step_us<=2"], of a feed-forward network
    ["ms<=5"]): the least of the varied numbers (["shared_memory.per_sm"]) that reaches it."""
    return _ask(chip, _question("what_if", {
        "cell": cell, "hidden": hidden, "batch": batch, "density": density, "precision": precision, "mask": mask,
        "granule": granule, "changes": changes, "target": target, "vary": vary, "price": price, **options,
    }), matrix)  # fmt: skip


def sensitivities(chip: ChipLike, cell: Optional[str] = None, hidden: Optional[int] = None,
                  batch: Optional[int] = None, **options: Any) -> Rows:  # fmt: skip
    """What 10 % more of each of the chip's numbers changes, the largest first: rows with `key`, `d_step_percent` of the time (of
    any workload), `d_hidden_percent` of the largest size that fits, and `difference_is_told`, whether the model can tell it
    from 0. None for a network that has no time on the chip. Keywords are those of predict(), but changes."""
    for key in sorted(options.keys() & {"changes", "set", "target", "vary", "price"}):
        raise InputError(f"'{key}' is of what_if, not of sensitivities")
    answer = what_if(chip, cell, hidden=hidden, batch=batch, **options)
    return Rows(answer.get("sensitivity", ()), bars=("d_step_percent", "d_hidden_percent"))


class Table(_Handle):
    """Rows as columns, which readers of Arrow take without a copy: pyarrow.table(table), polars.DataFrame(table),
    pandas.DataFrame.from_arrow(table). sweep_table() makes one."""

    _kind = "table"

    def __len__(self) -> int:
        rows = ctypes.c_int64()
        _call("onchip_table_rows", self._handle, ctypes.byref(rows))
        return rows.value

    def rows(self) -> Rows:
        """As a list of dicts."""
        return Rows(json.loads(_text("onchip_table_text", self._handle)), bars=("step_us", "ms"))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """As often as it is asked for. A requested schema is not heeded, as Arrow allows."""
        return arrow.capsule(lambda address: _call("onchip_table_stream", self._handle, address),
                             _function("onchip_capsule_destroy"))  # fmt: skip


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    return Table("create_rows", arrow.json_of(list(rows)).encode())


def _sweep(chip: ChipLike, axes: Sequence[Axis], options: Mapping[str, Any], progress: Optional[bool]) -> Table:
    """On a thread, so that Ctrl-C is heard and progress shown meanwhile."""
    chip, seen = _chip(chip), library.Progress()
    question = json.dumps({"ask": "sweep", "axis": list(axes), **_values(options)}, default=_plain).encode()
    is_shown = sys.stderr.isatty() if progress is None else progress
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        table = executor.submit(Table, "create_sweep", chip._handle, question, ctypes.byref(seen))
        text = ""
        try:
            while not concurrent.futures.wait([table], timeout=0.1 if text else 1).done:
                if is_shown and seen.rows:
                    text = f"{seen.done:,} of {seen.rows:,} rows, {100 * seen.done // seen.rows} %"
                    print(f"\r{text}", end="", file=sys.stderr, flush=True)
        finally:
            seen.stop = 1
            if text:
                print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)
        return table.result()


def sweep(chip: ChipLike, *axes: Axis, progress: Optional[bool] = None, **options: Any) -> Rows:
    """Rows for all combinations of the axes' values: a list of dicts, what `onchip sweep --format jsonl` prints. An axis is
    "hidden=512:4096:512", or {"hidden": [512, 1024], "batch": [1, 4]}, whose keys move together. column, where,
    keep_front, rows, granule and changes (["sm.count=+10%"]) are as the command's; every other option fixes a key: cell,
    density, family, mode="train", network="spdnn:1024x120", ... What is left out is as in the command.

    It uses all cores; Ctrl-C ends it, and `progress` says how far it is (unless given, on a terminal).
    A notebook shows the rows as a table, with a bar behind the times. They are an Arrow stream, too."""
    return _sweep(chip, axes, options, progress).rows()


def sweep_table(chip: ChipLike, *axes: Axis, progress: Optional[bool] = None, **options: Any) -> Table:
    """The rows of sweep() as columns for readers of Arrow, for many rows: a million takes seconds where plans are given.
    pandas.DataFrame.from_arrow(onchip.sweep_table(...))"""
    return _sweep(chip, axes, options, progress)


def pareto(chip: ChipLike, objectives: Texts, *axes: Axis, within: Union[str, float, None] = None,
           by: Optional[str] = None, **options: Any) -> Front:  # fmt: skip
    """The front of the rows of a sweep, which is asked as above, or of `rows`, a list of dicts: a dict, what `onchip pareto
    --format json` prints. objectives="step_us:min,hidden:max"; within="5%" leaves so many rows out that each has one as
    near; by="batch" finds a front for each value of that column. Its `table` has the rows of the front."""
    asked = objectives if isinstance(objectives, str) else ",".join(objectives)
    question = {"ask": "pareto", "objectives": asked, **_values({"within": within, "by": by, **options})}
    if axes:
        question["axis"] = list(axes)
    return Front(_ask(chip, question))


class Program(_Handle):
    """A network planned for a chip, compiled, and its weights encoded; made without a GPU if `architecture` is given
    ("sm_90"), else for the current device. Biases: [gates * hidden], fp32, host; None: zeros."""

    _kind = "program"

    def __init__(self, chip: ChipLike, cell: str, matrix: Matrix, batch: int = 1, precision: str = "fp16",
                 input_bias: Any = None, recurrent_bias: Any = None, architecture: Optional[str] = None,
                 tier: str = "streamed") -> None:  # fmt: skip
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
    def gates(self) -> int:
        return GATES[self.cell]

    def workspace_bytes(self, most_steps: int) -> int:
        bytes_needed = ctypes.c_size_t()
        _call("onchip_program_workspace_bytes", self._handle, most_steps, ctypes.byref(bytes_needed))
        return bytes_needed.value

    @property
    def fit(self) -> Fit:
        answer = library.Fit()
        _call("onchip_program_fit", self._handle, ctypes.byref(answer))
        return Fit._of(answer)

    @property
    def registers(self) -> int:
        registers = ctypes.c_int32()
        _call("onchip_program_registers", self._handle, ctypes.byref(registers))
        return registers.value


class Recurrence(_Handle):
    """A program on the current device, in the caller's memory. Streams are cudaStream_t as ints, 0 the default one.
    Device tensors are given as DLPack tensors, whose type and shape are checked, or as addresses, which are not."""

    _kind = "recurrence"

    def __init__(self, program: Program, workspace: Optional[int], workspace_bytes: int, most_steps: int,
                 stream: int = 0) -> None:  # fmt: skip
        """`workspace`: the address of device memory, aligned to 256 bytes, that outlives every run."""
        self.program = program
        super().__init__("create", program._handle, workspace, workspace_bytes, most_steps, stream or None)

    def enqueue(self, stream: int, steps: int, input: Any = None, initial: Any = None, initial_cell: Any = None,
                output: Any = None, final_state: Any = None, final_cell: Any = None, input_stride: int = 0,
                output_stride: int = 0, lengths: Optional[Sequence[int]] = None, backward: bool = False) -> None:  # fmt: skip
        """Enqueues a batch of sequences; may be captured in a graph. Shapes as in onchip_sequences. Tensors must stay
        alive until the stream is done with them."""
        kept: List[Any] = []
        p = self.program
        state = (p.batch, p.hidden)

        def pointer(tensor: Any, name: str, shape: Tuple[int, ...]) -> Optional[int]:
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

    def step(self, stream: int, input: Any, state: Any, cell: Any = None) -> None:
        """One step; state [batch, hidden] and, of an LSTM, cell are read and replaced."""
        kept: List[Any] = []
        p = self.program
        shapes = ((p.batch, p.gates * p.hidden), (p.batch, p.hidden), (p.batch, p.hidden))
        pointers = [
            tensors.device_pointer(tensor, name, shape, p.precision, stream, kept)
            for tensor, name, shape in zip((input, state, cell), ("input", "state", "cell"), shapes)
        ]
        _call("onchip_recurrence_step", self._handle, stream or None, *pointers)

    def check(self, stream: int = 0) -> None:
        """Waits for the stream; raises CudaError if a kernel has given up waiting since the last call: from then until this
        call, all outputs are NaN."""
        _call("onchip_recurrence_check", self._handle, stream or None)


class Training(_Handle):
    """Forward and all gradients of one layer, planned for the current device. Arrays are addresses of device memory, a dict
    for each direction, by their names in onchip_training_arrays, where their shapes are, too; or what arrays() makes. length_bytes: of each of
    `lengths`, 4 or 8; 0: none are given. stash: "gates", or "cells", from which backward computes the gates anew, `chunk` steps
    at a time (0: as usual), or "replay" of a stack of `layers`, which are then trained as one: a dict for each; or "none" of a stack
    that no backward follows. mask: a Matrix, which says where W_hh of an LSTM has weights, for ever."""

    _kind = "training"

    @staticmethod
    def _layer(cell: str, precision: str, *sizes: int, stash: str = "gates", chunk: int = 0, layers: int = 1,
               is_reverse: bool = False) -> Any:  # fmt: skip
        kinds = _number(CELLS, cell, "cell"), _number(PRECISIONS, precision, "precision")
        return library.Layer(*kinds, *sizes, _number((*STASHES, "none"), stash, "stash"), chunk, layers, is_reverse)

    @staticmethod
    def library(is_inference: bool, cell: str, precision: str, input: int, hidden: int, batch: int, steps: int,
                directions: int = 1, length_bytes: int = 0, layers: int = 1) -> str:  # fmt: skip
        """Why cuDNN is priced lower than these kernels at this size, with or without gradients; empty if it is not. layers: of a
        stack that no backward follows. Compiles nothing."""
        sizes = input, hidden, batch, steps, directions, length_bytes
        layer = Training._layer(cell, precision, *sizes, stash="gates" if layers == 1 else "none", layers=layers)
        return _text("onchip_training_library", ctypes.byref(layer), int(is_inference))

    @staticmethod
    def inference_us(step_us: float, cell: str, precision: str, input: int, hidden: int, batch: int, steps: int,
                     directions: int = 1, layers: int = 1) -> Tuple[float, float]:  # fmt: skip
        """What a forward without gradients is priced, in us: by these kernels, infinite where library() says why cuDNN is chosen;
        and by a Program for each layer and direction whose step takes `step_us`. layers: of one direction. Compiles nothing."""
        sizes = input, hidden, batch, steps, directions, 0
        layer = Training._layer(cell, precision, *sizes, stash="gates" if layers == 1 else "none", layers=layers)
        own, program = ctypes.c_double(), ctypes.c_double()
        _call("onchip_training_inference_us", ctypes.byref(layer), step_us, ctypes.byref(own), ctypes.byref(program))
        return own.value, program.value

    @staticmethod
    def memory(layers: int, cell: str, precision: str, input: int, hidden: int, batch: int, steps: int,
               directions: int = 1, length_bytes: int = 0, stash: str = "gates", chunk: int = 0,
               cell_layers: int = 0) -> Tuple[int, int]:  # fmt: skip
        """Bytes of an iteration of so many such layers, of whose gates so many of the first keep the cells: kept from forward to
        backward, and the most at once beside the input and the weights. Compiles nothing."""
        sizes = input, hidden, batch, steps, directions, length_bytes
        layer = Training._layer(cell, precision, *sizes, stash=stash, chunk=chunk)
        kept, peak = ctypes.c_size_t(), ctypes.c_size_t()
        _call("onchip_training_memory", ctypes.byref(layer), layers, cell_layers, ctypes.byref(kept), ctypes.byref(peak))
        return kept.value, peak.value

    @staticmethod
    def within(layers: int, budget: float, may_replay: bool, cell: str, precision: str, *sizes: int) -> Tuple[str, int, int, int]:
        """What such layers should keep for an iteration to take at most so many bytes in the least time: the stash, of how many of
        the first layers it is the cells, the steps of a chunk, and the most bytes at once, which are more where nothing takes so
        little. sizes: as of memory. Compiles nothing."""
        layer = Training._layer(cell, precision, *sizes, stash="replay" if may_replay else "gates")
        stash, cell_layers, chunk, peak = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int32(), ctypes.c_size_t()
        found = (ctypes.byref(value) for value in (stash, cell_layers, chunk, peak))
        _call("onchip_training_within", ctypes.byref(layer), layers, max(0, min(int(budget), 2**63)), *found)
        return STASHES[stash.value], cell_layers.value, chunk.value, peak.value

    def __init__(self, cell: str, precision: str, input: int, hidden: int, batch: int, steps: int, directions: int = 1,
                 length_bytes: int = 0, stash: str = "gates", mask: Optional[Matrix] = None, chunk: int = 0,
                 layers: int = 1, is_reverse: bool = False) -> None:  # fmt: skip
        self._parts = max(directions, layers)
        sizes = input, hidden, batch, steps, directions, length_bytes
        layer = self._layer(cell, precision, *sizes, stash=stash, chunk=chunk, layers=layers, is_reverse=is_reverse)
        if mask is None:
            super().__init__("create", ctypes.byref(layer))
        else:
            super().__init__("create_sparse", ctypes.byref(layer), mask._handle)
        workspace, kept, forward = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        _call("onchip_training_bytes", self._handle, ctypes.byref(workspace), ctypes.byref(kept))
        _call("onchip_training_forward_bytes", self._handle, ctypes.byref(forward))
        self.workspace_bytes, self.kept_bytes, self.forward_bytes = workspace.value, kept.value, forward.value
        self.plan = _text("onchip_training_plan", self._handle)
        self._with_weights: Dict[Tuple[Optional[int], ...], Any] = {}

    def arrays(self, weights: Tuple[Optional[int], ...]) -> Any:
        """Arrays that have these addresses, of w_ih, w_hh and perhaps b_ih, b_hh of one direction or layer after another; the
        caller sets the others. A call with the same weights finds them, for a decoder's step takes less than to make them."""
        found = self._with_weights.get(weights)
        if found is None:
            count = len(weights) // self._parts
            each = (weights[part * count : (part + 1) * count] for part in range(self._parts))
            named = (dict(zip(("w_ih", "w_hh", "b_ih", "b_hh"), of)) for of in each)
            found = (library.TrainingArrays * self._parts)(*(library.TrainingArrays(**of) for of in named))
            if len(self._with_weights) >= 64:
                self._with_weights.clear()
            self._with_weights[weights] = found
        return type(found).from_buffer_copy(found)

    def _run(self, name: str, stream: int, arrays: Any) -> None:
        if len(arrays) != self._parts:
            raise InputError(f"there are arrays of {len(arrays)} directions or layers; expected {self._parts}")
        if not isinstance(arrays, ctypes.Array):
            arrays = (library.TrainingArrays * len(arrays))(*(library.TrainingArrays(**of) for of in arrays))
        _call(name, self._handle, stream or None, arrays)

    def forward(self, stream: int, arrays: Any) -> None:
        """Enqueues; may be captured in a graph. Without `kept` and `cells`, no backward may follow, and the workspace is of
        forward_bytes, where that is not 0."""
        self._run("onchip_training_forward", stream, arrays)

    def backward(self, stream: int, arrays: Any) -> None:
        """Likewise; overwrites the gates, if forward kept them."""
        self._run("onchip_training_backward", stream, arrays)

    def check(self, stream: int) -> None:
        """Waits for the stream; CudaError if a kernel on the device has given up waiting since the last call, in a replayed graph,
        too. What it should have computed is NaN."""
        _call("onchip_training_check", self._handle, stream or None)


def _attention(precision: str, *sizes: int, **arrays: Any) -> Any:
    return library.Attention(_number(PRECISIONS[:3], precision, "precision"), *sizes, **arrays)


def attention_workspace_bytes(precision: str, batch: int, queries: int, keys: int, hidden: int) -> int:
    """Of device memory, for a backward of `attention`."""
    workspace = ctypes.c_size_t()
    given = _attention(precision, batch, queries, keys, hidden)
    _call("onchip_attention_workspace_bytes", ctypes.byref(given), ctypes.byref(workspace))
    return workspace.value


def attention(which: str, stream: int, precision: str, batch: int, queries: int, keys: int, hidden: int,
              **arrays: Any) -> None:  # fmt: skip
    """Enqueues a "forward" or a "backward" of MLP attention's scores; may be captured in a graph. arrays: addresses of device
    memory, by their names in onchip_attention, where their shapes are, too."""
    given = _attention(precision, batch, queries, keys, hidden, **arrays)
    _call(f"onchip_attention_{which}", ctypes.byref(given), stream or None)
