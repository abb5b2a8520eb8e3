# SPDX-License-Identifier: Apache-2.0
"""Tensors of any library by DLPack (https://dmlc.github.io/dlpack): where they lie, without a copy."""
import ctypes
import math

CPU, CUDA = 1, 2
FLOAT, BFLOAT = 2, 4  # DLPack's codes of types
ELEMENTS = {"fp16": (FLOAT, 16), "bf16": (BFLOAT, 16), "fp32": (FLOAT, 32), "fp8": (FLOAT, 16)}  # of the state


class _Tensor(ctypes.Structure):  # DLTensor, with which a DLManagedTensor begins
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class View:
    """A contiguous tensor: pointer, shape, device, (code, bits). Keeps the tensor alive."""

    def __init__(self, tensor, name, stream=None):
        if not hasattr(tensor, "__dlpack__"):
            raise TypeError(f"{name} is a {type(tensor).__name__}; expected a tensor with __dlpack__")
        device = tensor.__dlpack_device__()[0]
        # DLPack's name of the default stream is 1. The tensor's owner makes the stream wait for what writes it.
        capsule = tensor.__dlpack__(stream=stream or 1) if device == CUDA else tensor.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
        raw = _Tensor.from_address(get(capsule, b"dltensor"))
        self._capsule = capsule  # its destructor gives the tensor back
        self.shape = tuple(raw.shape[i] for i in range(raw.dimensions))
        self.device = raw.device_type
        self.type = (raw.code, raw.bits)
        self.pointer = (raw.data or 0) + raw.byte_offset
        if raw.lanes != 1:
            raise ValueError(f"{name} has vectors as elements")
        if raw.strides and math.prod(self.shape) > 0:
            expected = 1
            for size, stride in reversed(list(zip(self.shape, raw.strides[: raw.dimensions]))):
                if size != 1 and stride != expected:
                    raise ValueError(f"{name} is not contiguous")
                expected *= size


def host_floats(values, name):
    """A view of fp32 in host memory: a CPU tensor, or anything with Python's buffer protocol."""
    if hasattr(values, "__dlpack__"):
        view = View(values, name)
        if view.device != CPU:
            raise ValueError(f"{name} is not in host memory")
        if view.type != (FLOAT, 32):
            raise ValueError(f"{name} is not fp32")
        return view
    return _Buffer(values, name)


class _Buffer:
    def __init__(self, values, name):
        try:
            buffer = memoryview(values)
        except TypeError:
            raise TypeError(f"{name} is a {type(values).__name__}; expected a tensor or a buffer of fp32") from None
        if buffer.format != "f" or not buffer.c_contiguous:
            raise ValueError(f"{name} is not contiguous fp32")
        self.shape = tuple(buffer.shape)
        self._bytes = buffer.tobytes()  # ctypes finds no address in what is read-only
        self.pointer = ctypes.cast(ctypes.c_char_p(self._bytes), ctypes.c_void_p).value


def device_pointer(tensor, name, shape, precision, stream, kept):
    """The address of a device tensor of this shape, in the type of the state; an int is taken as it is. What must stay
    alive is appended to `kept`."""
    if tensor is None or isinstance(tensor, int):
        return tensor
    view = View(tensor, name, stream)
    if view.device != CUDA:
        raise ValueError(f"{name} is not on a CUDA device")
    if view.type != ELEMENTS[precision]:
        raise ValueError(f"{name} has another type than a state of {precision}")
    if view.shape != tuple(shape):
        raise ValueError(f"{name} has shape {list(view.shape)}; expected {list(shape)}")
    kept.append(view)
    return view.pointer
