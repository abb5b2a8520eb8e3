# SPDX-License-Identifier: Apache-2.0
"""Sparse feed-forward networks that run images. Needs NumPy where images are given."""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Tuple, Union

from . import library
from .api import InputError, _call, _Handle, _number, _text

if TYPE_CHECKING:
    from numpy import float32, int32
    from numpy.typing import NDArray

ENGINES = ("automatic", "gpu", "reference")


class FeedForward(_Handle):
    """A network of layers y = min(max(W x + b, 0), clip), each W sparse; the last is y = W x + b where the text has
    "logits=yes".

    `network`: one line of text, "spdnn:1024x120", "random:neurons=1024,layers=8", or files, "model.safetensors"
    (docs/feed-forward.md). `engine`: "gpu" plans for the current device, packs and compiles, which takes up to seconds;
    "reference" is the CPU's, in fp32; "automatic" is the GPU where there is one. Raises InputError for a text or files
    that are not understood, DoesNotFit where no kernel can run the network, CudaError without a device.

    Images are any number of rows with `neurons[0]` features: a 2-D array [images, neurons[0]]; or compressed rows, a
    tuple (begin [images + 1], neuron) or (begin, neuron, value), neurons ascending within an image, values 1 if none are
    given; or a sparse array or matrix of SciPy, of any format. Values are rounded to fp32.
    """

    _kind = "inference"

    def __init__(self, network: Union[str, os.PathLike[str]], engine: str = "automatic") -> None:
        super().__init__("create", os.fsencode(network), _number(ENGINES, engine, "engine"))

    @property
    def layers(self) -> int:
        layers = ctypes.c_int32()
        _call("onchip_inference_layers", self._handle, ctypes.byref(layers))
        return layers.value

    @property
    def neurons(self) -> Tuple[int, ...]:
        """Of the images, then of each layer: a tuple of layers + 1 numbers."""
        return tuple(self._neurons(layers) for layers in range(self.layers + 1))

    @property
    def plan(self) -> str:
        """What runs the network, in one line: the plan of kernels that `predict --network` prices without other options, the
        best for 60,000 synthetic digits; or "reference"."""
        return _text("onchip_inference_plan", self._handle)

    def categories(self, images: Any) -> NDArray[int32]:
        """The images with a feature that is not zero after the last layer: numbers from 0, ascending, int32 [alive].
        Raises InputError for images that are not the network's."""
        import numpy

        lists, kept = self._lists(images)
        categories, count = numpy.empty(lists.count, numpy.int32), ctypes.c_int32()
        _call(
            "onchip_inference_categories", self._handle, ctypes.byref(lists), categories.ctypes.data, ctypes.byref(count)
        )  # fmt: skip
        return categories[: count.value].copy()

    def features(self, images: Any, layers: int) -> NDArray[float32]:
        """After the first `layers` layers, 0 being the images themselves: fp32 [images, neurons[layers]], bit by bit the
        reference's; zeros for an image without a feature. Raises InputError as categories() does, and for layers that
        there are not."""
        import numpy

        lists, kept = self._lists(images)
        features = numpy.empty((lists.count, self._neurons(layers)), numpy.float32)
        _call("onchip_inference_features", self._handle, ctypes.byref(lists), layers, features.ctypes.data)
        return features

    def _neurons(self, layers: int) -> int:
        neurons = ctypes.c_int32()
        _call("onchip_inference_neurons", self._handle, layers, ctypes.byref(neurons))
        return neurons.value

    def _lists(self, images: Any) -> Tuple[Any, Any]:
        """onchip_images, and the arrays that it points to."""
        import numpy

        def array(values, type_of, name):
            given = numpy.ascontiguousarray(values)
            made = given.astype(type_of)
            if made.ndim != 1 or (type_of != numpy.float32 and (made != given).any()):
                raise InputError(f"{name} is not one dimension of {type_of.__name__}")
            return made

        inputs = self._neurons(0)
        if not isinstance(images, tuple):
            images = images if hasattr(images, "tocsr") else numpy.asarray(images)
            if len(images.shape) != 2 or images.shape[1] != inputs:
                raise InputError(f"the images have shape {list(images.shape)}; expected [images, {inputs}]")
        if hasattr(images, "tocsr"):  # SciPy's, of any format
            images = images.tocsr(copy=True)
            images.sum_duplicates()  # and sorts
            images = images.indptr, images.indices, images.data
        if isinstance(images, tuple):
            begin, neuron = array(images[0], numpy.int64, "begin"), array(images[1], numpy.int32, "neuron")
            value = array(images[2], numpy.float32, "value") if len(images) > 2 and images[2] is not None else None
        else:
            row, neuron = numpy.nonzero(images)
            begin = numpy.zeros(len(images) + 1, numpy.int64)
            numpy.cumsum(numpy.bincount(row, minlength=len(images)), out=begin[1:])
            neuron, value = neuron.astype(numpy.int32), images[row, neuron].astype(numpy.float32)
        if value is not None and (value == 1).all():
            value = None
        for name, values in (("neuron", neuron), ("value", value)):
            if begin.size == 0 or (values is not None and values.size != begin[-1]):
                raise InputError(f"{name} has {values.size} elements; expected as many as begin ends with")
        pointers = (None if values is None else values.ctypes.data for values in (begin, neuron, value))
        return library.Images(len(begin) - 1, *pointers), (begin, neuron, value)
