# SPDX-License-Identifier: Apache-2.0
"""Tables in libonchip.so as streams of Arrow's C stream interface, for readers that take a PyCapsule:
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html. Nothing of Python runs when they are released."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable

_WORDS = 5  # pointers of a struct ArrowArrayStream
_malloc = ctypes.CDLL(None).malloc
_malloc.argtypes, _malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def capsule(fill: Callable[[int], None], destroy: Any) -> object:
    """A capsule "arrow_array_stream" around what `fill` writes to an address; `destroy` is the library's destructor."""
    address = _malloc(_WORDS * ctypes.sizeof(ctypes.c_void_p))
    fill(address)
    return _capsule_new(address, b"arrow_array_stream", ctypes.cast(destroy, ctypes.c_void_p))


def json_of(rows: Any) -> str:
    """Numbers of NumPy are numbers, not-a-number is none, and what JSON has no word for is a text."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return value if abs(value) < float("inf") else None
        if isinstance(value, dict):
            return {str(key): plain(of) for key, of in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(of) for of in value]
        if value is None or isinstance(value, (bool, int, str)):
            return value
        return plain(value.tolist()) if hasattr(value, "tolist") else str(value)

    return json.dumps(plain(rows))
