# SPDX-License-Identifier: Apache-2.0
"""torch.compile does not trace instances of torch.nn.LSTM and GRU, whatever their forward does; `trace(classes)` lets it trace
those of some subclasses, but not some of their methods: these run as they are, after a break of the graph. What compiles is imported
by torch when it is needed, and not before: seconds."""
import importlib.util
import sys

import torch

_BUILDER = "torch._dynamo.variables.builder"


def hint(size):
    """Of a size that torch.compile leaves open: what it is in this call, as a number; nothing is compiled anew for another."""
    shapes = torch.fx.experimental.symbolic_shapes
    return shapes.size_hint(size) if hasattr(shapes, "size_hint") else len((None,) * size)


def _disable(base, methods):
    """Once torch compiles a module of theirs. torch.compiler.disable imports what compiles."""
    if not hasattr(getattr(base, methods[0]), "_torchdynamo_disable"):
        for method in methods:
            setattr(base, method, torch.compiler.disable(getattr(base, method)))
        torch._dynamo.disallow_in_graph(torch._VF._pad_packed_sequence)  # it reads the batch sizes


def _patch(builder, classes, base, methods):
    original = getattr(builder.VariableBuilder, "wrap_module", None)
    if original is None or not hasattr(builder.config, "allow_rnn"):
        return  # a torch that says no elsewhere, if at all

    def wrap_module(self, value):
        if not isinstance(value, classes):
            return original(self, value)
        _disable(base, methods)
        with builder.config.patch(allow_rnn=True):
            return original(self, value)

    builder.VariableBuilder.wrap_module = wrap_module


class _AfterImport:
    """Of sys.meta_path, until the module has been imported."""

    def __init__(self, *patched):
        self.patched = patched

    def find_spec(self, name, path=None, target=None):
        if name != _BUILDER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _patch(module, *self.patched)

        spec.loader.exec_module = exec_module
        return spec


def trace(classes, base, methods):
    """Instances of `classes`, but not the methods of their base class that `methods` names."""
    if _BUILDER in sys.modules:
        _patch(sys.modules[_BUILDER], classes, base, methods)
    else:
        sys.meta_path.insert(0, _AfterImport(classes, base, methods))
