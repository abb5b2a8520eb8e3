# SPDX-License-Identifier: Apache-2.0
"""Columns as a stream of Arrow's C data interface: what __arrow_c_stream__ returns, without Arrow.

Structures and rules of release: https://arrow.apache.org/docs/format/CDataInterface.html, CStreamInterface.html and
CDataInterface/PyCapsuleInterface.html. What a structure points to is kept in _kept, under the number in its private_data,
until whoever has taken the structure releases it. A child may be moved and outlive its parent: it has a number of its own.
"""
from __future__ import annotations

import ctypes
import itertools
import json
import numbers
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast, pointer
from typing import Any, Sequence

NULLABLE = 2  # ARROW_FLAG_NULLABLE


class Schema(Structure):
    pass  # its children are of the same kind: fields below


class Array(Structure):
    pass


class Stream(Structure):
    _fields_ = [(name, c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


def _fields(of, texts, numbers, buffers=()):
    return [*((name, c_char_p) for name in texts), *((name, c_int64) for name in numbers), *buffers,
            ("children", POINTER(POINTER(of))), ("dictionary", POINTER(of)), ("release", c_void_p),
            ("private_data", c_void_p)]  # fmt: skip


Schema._fields_ = _fields(Schema, ("format", "name", "metadata"), ("flags", "n_children"))
Array._fields_ = _fields(Array, (), ("length", "null_count", "offset", "n_buffers", "n_children"),
                         [("buffers", POINTER(c_void_p))])  # fmt: skip

_kept, _numbers = {}, itertools.count(1)


def _keep(structure, *kept):
    structure.private_data = next(_numbers)
    structure.release = cast(_RELEASE[type(structure)], c_void_p)
    _kept[structure.private_data] = kept


def _release(structure, kept=_kept):
    for child in range(getattr(structure, "n_children", 0)):
        if structure.children[child].contents.release:  # else it was moved
            _release(structure.children[child].contents)
    structure.release = None
    kept.pop(structure.private_data)


_raise_pending = PYFUNCTYPE(c_void_p)(("PyErr_Occurred", ctypes.pythonapi))  # ctypes raises what is found set


def _callback(release):
    """A C function of an address. It may be called while an exception is on its way, e.g. where a table dies in the
    expression that fails. ctypes cannot hand that on to its caller, who then raises SystemError: what is kept is released
    all the same, and the exception is printed."""

    def called(address, release=release, raise_pending=_raise_pending):
        pending = None
        try:
            raise_pending()
        except BaseException as error:
            pending = error
        release(address)
        if pending is not None:
            raise pending

    return CFUNCTYPE(None, c_void_p)(called)


_RELEASE = {of: _callback(lambda address, of=of, release=_release: release(of.from_address(address)))
            for of in (Schema, Array, Stream)}  # fmt: skip


def _fill_schema(schema, form, name, flags, children=()):
    pointers = (POINTER(Schema) * len(children))(*map(pointer, children))
    schema.format, schema.name, schema.metadata, schema.flags = form, name, None, flags
    schema.n_children, schema.children, schema.dictionary = len(children), pointers, None
    _keep(schema, form, name, pointers, children)


def _fill_array(array, length, null_count, buffers, children=()):
    pointers = (POINTER(Array) * len(children))(*map(pointer, children))
    addresses = (c_void_p * len(buffers))(*(None if buffer is None else ctypes.addressof(buffer) for buffer in buffers))
    array.length, array.null_count, array.offset = length, null_count, 0
    array.n_buffers, array.buffers = len(buffers), addresses
    array.n_children, array.children, array.dictionary = len(children), pointers, None
    _keep(array, addresses, buffers, pointers, children)


def _bits(flags):
    """A byte for each eight, the first in the lowest bit."""
    eights = (flags[first : first + 8] for first in range(0, len(flags), 8))
    return ctypes.create_string_buffer(bytes(sum(flag << bit for bit, flag in enumerate(eight)) for eight in eights))


def _column(values):
    """(format, null count, buffers) of int64, float64, bool or utf8, whichever holds all values."""
    present = [value for value in values if value is not None]
    nulls = len(values) - len(present)
    validity = _bits([value is not None for value in values]) if nulls else None
    if present and all(isinstance(value, bool) for value in present):
        return b"b", nulls, (validity, _bits([bool(value) for value in values]))
    if present and all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in present):
        is_whole = all(isinstance(value, numbers.Integral) and -(2**63) <= value < 2**63 for value in present)
        form, number, of_c = (b"l", int, c_int64) if is_whole else (b"g", float, ctypes.c_double)
        return form, nulls, (validity, (of_c * len(values))(*(number(value or 0) for value in values)))
    texts = [value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str) for value in values]
    texts = [text.encode(errors="replace") for text in texts]
    ends = [0, *itertools.accumulate(map(len, texts))]
    if ends[-1] >= 2**31:
        raise OverflowError(f"a column has {ends[-1]} bytes of text; utf8 of Arrow takes less than 2 GiB")
    ends = (ctypes.c_int32 * len(ends))(*ends)
    return b"u", nulls, (validity, ends, ctypes.create_string_buffer(b"".join(texts)))


@CFUNCTYPE(c_int, POINTER(Stream), POINTER(Schema))
def _get_schema(stream, schema):
    names, columns, _, _ = _kept[stream.contents.private_data]
    children = [Schema() for _ in columns]
    for child, name, (form, _, _) in zip(children, names, columns):
        _fill_schema(child, form, name, NULLABLE)
    _fill_schema(schema.contents, b"+s", b"", 0, children)
    return 0


@CFUNCTYPE(c_int, POINTER(Stream), POINTER(Array))
def _get_next(stream, array):
    _, columns, length, left = _kept[stream.contents.private_data]
    array.contents.release = None  # the end
    if left:
        left.pop()
        children = [Array() for _ in columns]
        for child, (_, nulls, buffers) in zip(children, columns):
            _fill_array(child, length, nulls, buffers)
        _fill_array(array.contents, length, 0, (None,), children)
    return 0


@CFUNCTYPE(c_void_p, POINTER(Stream))
def _get_last_error(stream):
    return None  # none of the above fails


_CAPSULE = b"arrow_array_stream"
_capsule_new = PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_capsule_pointer = PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


@_callback
def _destroy_capsule(capsule, kept=_kept, pointer_of=_capsule_pointer, name=_CAPSULE):
    address = pointer_of(capsule, name)
    made = kept.pop(("capsule", address))
    if made.release:  # nobody has taken it
        _release(made)


def stream(names: Sequence[str], columns: Sequence[Sequence[Any]], length: int) -> object:
    """A capsule "arrow_array_stream" of one batch, where there are rows. Columns: lists of `length` values, null where None."""
    made, one = Stream(), [True] if length else []
    made.get_schema, made.get_next = cast(_get_schema, c_void_p), cast(_get_next, c_void_p)
    made.get_last_error = cast(_get_last_error, c_void_p)
    _keep(made, [name.encode(errors="replace") for name in names], [_column(of) for of in columns], length, one)
    _kept["capsule", ctypes.addressof(made)] = made
    return _capsule_new(byref(made), _CAPSULE, cast(_destroy_capsule, c_void_p))
