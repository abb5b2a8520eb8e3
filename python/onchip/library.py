# SPDX-License-Identifier: Apache-2.0
"""The C API as ctypes sees it: kernels/api/onchip.h, line by line. Loaded at its first use."""
import ctypes
import functools
import importlib.util
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p

API_VERSION = 5
OK, INVALID, DOES_NOT_FIT, CUDA = range(4)
RESOURCES = 5


class Error(ctypes.Structure):
    _fields_ = [("message", c_char * 1024)]


class _Sized(ctypes.Structure):
    """A struct that begins with its own size."""

    def __init__(self, *values, **named):
        super().__init__(ctypes.sizeof(self), *values, **named)


class Network(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("cell", c_int32),
        ("precision", c_int32),
        ("hidden", c_int32),
        ("batch", c_int32),
        ("density", c_double),
        ("tier", c_int32),
    ]


class Resource(ctypes.Structure):
    _fields_ = [("used", c_double), ("available", c_double), ("name", c_char * 16), ("unit", c_char * 32)]


class Fit(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("fits", c_int32),
        ("binding", c_int32),
        ("resources", Resource * RESOURCES),
        ("streamed_share", c_double),
        ("step_us", c_double),
        ("low_us", c_double),
        ("high_us", c_double),
        ("floor_us", c_double),
        ("why", c_char * 256),
        ("plan", c_char * 512),
        ("runs", c_int32),
        ("tier", c_int32),
    ]


class Sequences(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("steps", c_int64),
        ("input", c_void_p),
        ("initial", c_void_p),
        ("initial_cell", c_void_p),
        ("output", c_void_p),
        ("final_state", c_void_p),
        ("final_cell", c_void_p),
        ("input_stride", c_int64),
        ("output_stride", c_int64),
        ("lengths", POINTER(c_int32)),
        ("backward", c_int32),
    ]


class Layer(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("cell", c_int32),
        ("precision", c_int32),
        ("input", c_int32),
        ("hidden", c_int32),
        ("batch", c_int32),
        ("steps", c_int64),
        ("directions", c_int32),
        ("length_bytes", c_int32),
        ("stash", c_int32),
        ("chunk", c_int32),
        ("layers", c_int32),
        ("is_reverse", c_int32),
    ]


class TrainingArrays(_Sized):
    _fields_ = [("struct_bytes", c_size_t)] + [
        (name, c_void_p)
        for name in (
            "workspace", "lengths", "x", "w_ih", "w_hh", "b_ih", "b_hh", "h0", "c0", "y", "hn", "cn", "cells", "kept", "dy",
            "dhn", "dcn", "dx", "dw_ih", "dw_hh", "db", "dh0", "dc0", "db_hh",
        )
    ] + [("rows", c_int64)]  # fmt: skip


class Attention(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("precision", c_int32),
        ("batch", c_int32),
        ("queries", c_int32),
        ("keys", c_int32),
        ("hidden", c_int32),
    ] + [(name, c_void_p) for name in ("q", "k", "v", "scores", "dscores", "dq", "dk", "dv", "workspace")]


class Stack(_Sized):
    _fields_ = [("struct_bytes", c_size_t)] + [
        (name, c_int32)
        for name in ("cell", "precision", "layers", "input", "hidden", "batch", "streams", "idle_us", "answer_us")
    ]


class StackWeights(ctypes.Structure):
    _fields_ = [(name, c_void_p) for name in ("w_ih", "w_hh", "b_ih", "b_hh")]


class Progress(_Sized):
    _fields_ = [("struct_bytes", c_size_t), ("done", c_int64), ("rows", c_int64), ("stop", c_int32)]


class Images(_Sized):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("count", c_int32),
        ("begin", c_void_p),
        ("neuron", c_void_p),
        ("value", c_void_p),
    ]


_ERROR = POINTER(Error)
_HANDLE = POINTER(c_void_p)
_FUNCTIONS = {
    "onchip_chip_create": [c_char_p, _HANDLE, _ERROR],
    "onchip_chip_set": [c_void_p, c_char_p, _ERROR],
    "onchip_matrix_create_dense": [c_int32, c_int32, c_void_p, _HANDLE, _ERROR],
    "onchip_matrix_create_csr": [c_int32, c_int32, c_void_p, c_void_p, c_void_p, _HANDLE, _ERROR],
    "onchip_matrix_create_from_file": [c_char_p, c_char_p, _HANDLE, _ERROR],
    "onchip_matrix_size": [c_void_p, POINTER(c_int32), POINTER(c_int32), POINTER(c_int64), _ERROR],
    "onchip_fit_network": [c_void_p, POINTER(Network), c_void_p, POINTER(Fit), _ERROR],
    "onchip_largest_hidden": [c_void_p, POINTER(Network), c_int32, POINTER(c_int32), _ERROR],
    "onchip_ask": [c_void_p, c_char_p, c_void_p, _HANDLE, _ERROR],
    "onchip_table_create_sweep": [c_void_p, c_char_p, POINTER(Progress), _HANDLE, _ERROR],
    "onchip_table_create_rows": [c_char_p, _HANDLE, _ERROR],
    "onchip_table_rows": [c_void_p, POINTER(c_int64), _ERROR],
    "onchip_table_text": [c_void_p, _HANDLE, _ERROR],
    "onchip_table_stream": [c_void_p, c_void_p, _ERROR],
    "onchip_program_create": [
        c_void_p, POINTER(Network), c_void_p, c_void_p, c_void_p, c_char_p, _HANDLE, _ERROR,
    ],
    "onchip_program_workspace_bytes": [c_void_p, c_int64, POINTER(c_size_t), _ERROR],
    "onchip_program_fit": [c_void_p, POINTER(Fit), _ERROR],
    "onchip_program_registers": [c_void_p, POINTER(c_int32), _ERROR],
    "onchip_recurrence_create": [c_void_p, c_void_p, c_size_t, c_int64, c_void_p, _HANDLE, _ERROR],
    "onchip_recurrence_enqueue": [c_void_p, c_void_p, POINTER(Sequences), _ERROR],
    "onchip_recurrence_step": [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, _ERROR],
    "onchip_recurrence_check": [c_void_p, c_void_p, _ERROR],
    "onchip_training_create": [POINTER(Layer), _HANDLE, _ERROR],
    "onchip_training_library": [POINTER(Layer), c_int32, _HANDLE, _ERROR],
    "onchip_training_inference_us": [POINTER(Layer), c_double, POINTER(c_double), POINTER(c_double), _ERROR],
    "onchip_training_create_sparse": [POINTER(Layer), c_void_p, _HANDLE, _ERROR],
    "onchip_training_bytes": [c_void_p, POINTER(c_size_t), POINTER(c_size_t), _ERROR],
    "onchip_training_forward_bytes": [c_void_p, POINTER(c_size_t), _ERROR],
    "onchip_training_memory": [POINTER(Layer), c_int32, c_int32, POINTER(c_size_t), POINTER(c_size_t), _ERROR],
    "onchip_training_within": [
        POINTER(Layer), c_int32, c_size_t, POINTER(c_int32), POINTER(c_int32), POINTER(c_int32), POINTER(c_size_t), _ERROR,
    ],
    "onchip_training_plan": [c_void_p, _HANDLE, _ERROR],
    "onchip_training_forward": [c_void_p, c_void_p, POINTER(TrainingArrays), _ERROR],
    "onchip_training_backward": [c_void_p, c_void_p, POINTER(TrainingArrays), _ERROR],
    "onchip_training_check": [c_void_p, c_void_p, _ERROR],
    "onchip_attention_workspace_bytes": [POINTER(Attention), POINTER(c_size_t), _ERROR],
    "onchip_attention_forward": [POINTER(Attention), c_void_p, _ERROR],
    "onchip_attention_backward": [POINTER(Attention), c_void_p, _ERROR],
    "onchip_stream_create": [POINTER(Stack), POINTER(StackWeights), _HANDLE, _ERROR],
    "onchip_stream_step": [c_void_p, c_int32, c_void_p, c_void_p, _ERROR],
    "onchip_stream_send": [c_void_p, c_int32, c_void_p, _ERROR],
    "onchip_stream_receive": [c_void_p, c_int32, c_void_p, _ERROR],
    "onchip_stream_reset": [c_void_p, c_int32, c_void_p, c_void_p, _ERROR],
    "onchip_stream_set_weights": [c_void_p, POINTER(StackWeights), _ERROR],
    "onchip_stream_plan": [c_void_p, _HANDLE, _ERROR],
    "onchip_inference_create": [c_char_p, c_int32, _HANDLE, _ERROR],
    "onchip_inference_layers": [c_void_p, POINTER(c_int32), _ERROR],
    "onchip_inference_neurons": [c_void_p, c_int32, POINTER(c_int32), _ERROR],
    "onchip_inference_plan": [c_void_p, _HANDLE, _ERROR],
    "onchip_inference_categories": [c_void_p, POINTER(Images), c_void_p, POINTER(c_int32), _ERROR],
    "onchip_inference_features": [c_void_p, POINTER(Images), c_int32, c_void_p, _ERROR],
}
_DESTROYS = (
    "onchip_chip", "onchip_matrix", "onchip_text", "onchip_table", "onchip_capsule", "onchip_program", "onchip_recurrence", "onchip_training",
    "onchip_stream", "onchip_inference",
)  # fmt: skip
# What only a library that was built with CUDA has.
_OF_CUDA = ("onchip_program_", "onchip_recurrence_", "onchip_training_", "onchip_attention_", "onchip_stream_")


def candidates():
    """Where the library may be, in order."""
    if os.environ.get("ONCHIP_LIBRARY"):
        return [pathlib.Path(os.environ["ONCHIP_LIBRARY"])]
    here = pathlib.Path(__file__).resolve().parent
    return [here / "lib" / "libonchip.so", here.parents[1] / "build" / "libonchip.so"]


def name_cuda():
    """Tells the library and the command where pip has put NVRTC and CUDA's other libraries, if it has: nvidia/*/lib."""
    package = importlib.util.find_spec("nvidia")
    places = package.submodule_search_locations if package else ()
    folders = sorted(str(folder) for place in places for folder in pathlib.Path(place).glob("*/lib"))
    if folders:
        os.environ.setdefault("ONCHIP_CUDA_FOLDERS", ":".join(folders))


@functools.lru_cache(maxsize=None)
def load():
    found = next((path for path in candidates() if path.exists()), None)
    if found is None:
        places = " or ".join(str(path) for path in candidates())
        raise OSError(f"no libonchip.so at {places}; set ONCHIP_LIBRARY to where it is")
    name_cuda()
    library = ctypes.CDLL(str(found))
    library.onchip_api_version.argtypes = []
    library.onchip_api_version.restype = c_int32
    if library.onchip_api_version() != API_VERSION:
        raise OSError(f"{found} has version {library.onchip_api_version()} of the API; expected {API_VERSION}")
    for name, arguments in _FUNCTIONS.items():
        if name.startswith(_OF_CUDA) and not hasattr(library, name):
            continue
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int32
    for name in _DESTROYS:
        if f"{name}_".startswith(_OF_CUDA) and not hasattr(library, name + "_destroy"):
            continue
        function = getattr(library, name + "_destroy")
        function.argtypes = [c_void_p]
        function.restype = None
    return library
