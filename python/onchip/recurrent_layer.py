# SPDX-License-Identifier: Apache-2.0
"""One layer of an LSTM or a GRU, all its directions, over onchip_training_* of the C API: a node of autograd, and for
torch.compile an operator, torch.ops.onchip.layer.

    y, hn, cn = run(cell, x, h0, c0, lengths, weights, directions, steps, mask, stash)

cell: "lstm" or "gru", of which c0 is None and cn empty. x [steps, batch, any]; h0, c0 and hn, cn [directions, batch, hidden], h0
and c0 may be None; lengths [batch] on x's device, or None; weights: w_ih, w_hh and perhaps b_ih, b_hh of each direction.
y [steps, batch, directions * hidden] is zero beyond a sample's length. With `steps`, x and y are packed: [rows, ...], as a
PackedSequence of so many steps has its data, and lengths, h0, c0, hn and cn are in the order of its samples. mask: a Mask of
w_hh, or None. stash: a Stash of "gates" or "cells", what is kept for backward; torch.compile's operator and a mask keep the
gates.

    y, hn, cn = replay(cell, x, h0, c0, weights, stash)

A stack of layers with a Stash of "replay": weights and states are those of all layers, one after another.

    plan, (y, hn, cn) = stack(cell, x, h0, c0, weights, stash)

The same where nobody wants gradients, with a Stash of "none": as many layers are on the chip at once as is fastest. Or one text,
why not.
"""
import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import threading
import warnings
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import api

PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_CAPTURED = []  # what graphs copy from host memory whenever they run
_LAYERS = collections.OrderedDict()  # by device, sizes and type: the layer, or why there is none; used last stands last
_LAYERS_LOCK = threading.Lock()
_MOST_LAYERS = 256  # each takes 0.2 to 0.4 MB of host memory, and its kernels on the device
_OF_GRAPHS = set()  # keys of layers that a captured graph replays: they stay for ever
_LIBRARIES = {}  # by device, sizes and type: why a library is faster


class Stash(NamedTuple):
    """What forward keeps: api.STASHES or "none"; the steps of a chunk, 0: as usual; the layers of a replay or without a stash, and
    without one whether they go from the last position to the first."""

    kind: str = "gates"
    chunk: int = 0
    layers: int = 1
    is_reverse: bool = False


GATES = Stash()


# torch's own ways to a device and to its stream take longer than a launch.
def _context(device):
    return contextlib.nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)


def _stream():
    if hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    return torch.cuda.current_stream().cuda_stream


def _is_capturing():
    return torch.cuda.is_current_stream_capturing()


class Mask:
    """Where W_hh has weights now, and for ever: a matrix in host memory, known by its content. Copies and files have it, too."""

    def __init__(self, w_hh):
        self._set((w_hh.detach() != 0).cpu().contiguous())

    def _set(self, kept):
        self._kept, self._digest = kept, hashlib.sha256(kept.numpy().tobytes()).digest() + bytes(str(kept.shape), "ascii")
        self.matrix = api.Matrix.dense(kept.float())

    def __getstate__(self):
        return self._kept

    def __setstate__(self, kept):
        self._set(kept)

    def __deepcopy__(self, _):
        return self  # it never changes

    def __eq__(self, other):
        return isinstance(other, Mask) and self._digest == other._digest

    def __hash__(self):
        return hash(self._digest)


def _known(key):
    """What _LAYERS has of a key, which is now the one used last; or nothing."""
    with _LAYERS_LOCK:
        if key not in _LAYERS:
            return None
        _LAYERS.move_to_end(key)
        if key[0].type == "cuda" and _is_capturing():
            _OF_GRAPHS.add(key)
        return _LAYERS[key]


def _remember(key, layer):
    """And forgets the layers used longest ago, but those of graphs, once there are too many. No kernel of theirs may be running."""
    with _LAYERS_LOCK:
        layer = _LAYERS.setdefault(key, layer)  # another thread's may be there
        unused = [key for key in list(_LAYERS)[: len(_LAYERS) - _MOST_LAYERS] if key not in _OF_GRAPHS]
        for device in {key[0] for key in unused}:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        for key in unused:
            del _LAYERS[key]
    return layer


def _layer(device, dtype, cell, *sizes):
    """An api.Training of a cell and `sizes`: input, hidden, batch, steps, directions, the bytes of a length (0: none are
    given), the Stash, and perhaps a Mask; or a sentence that says why there is none."""
    key = (device, dtype, cell, *sizes)
    mask = sizes[7] if len(sizes) > 7 else None
    known = _known(key)
    if known is not None:
        return known
    with _context(device):
        if _is_capturing():
            input, hidden, batch, steps, *_ = sizes
            raise RuntimeError(
                f"the {cell.upper()} of {steps} steps, batch {batch} and sizes {input} and {hidden} has no kernels yet, and "
                "they cannot be loaded while a CUDA graph is captured; run it once before"
            )
        try:
            options = {"mask": mask.matrix} if mask else {}
            stash = sizes[6]._asdict()
            kind = stash.pop("kind")
            options |= stash if kind != "gates" else {}
            layer = api.Training(cell, PRECISIONS[dtype], *sizes[:6], kind, **options)
        except api.DoesNotFit as problem:
            layer = str(problem)
        except (OSError, api.ApiError) as problem:
            warnings.warn(f"onchip.{cell.upper()} takes torch's path: {problem}")
            layer = str(problem)
    return _remember(key, layer)


def _library(device, dtype, is_inference, cell, *sizes):
    """Why torch's path is the faster one, or nothing."""
    key = (device, dtype, is_inference, cell, *sizes)
    if key not in _LIBRARIES:
        with _context(device):
            try:
                _LIBRARIES[key] = api.Training.library(is_inference, cell, PRECISIONS[dtype], *sizes)
            except (OSError, api.ApiError):  # a layer says so, too
                _LIBRARIES[key] = ""
    return _LIBRARIES[key]


@functools.lru_cache(maxsize=_MOST_LAYERS)
def memory(layers, cell, dtype, *sizes):
    """The most bytes at once of an iteration of so many layers, `sizes` as of api.Training.memory."""
    return api.Training.memory(layers, cell, PRECISIONS[dtype], *sizes)[1]


@functools.lru_cache(maxsize=_MOST_LAYERS)
def within(layers, budget, may_replay, cell, dtype, *sizes):
    """The Stash of each layer, or of all layers one of replay, that takes the least time within a budget of bytes; and the most
    bytes at once. `sizes`: as of _layer, without a stash."""
    found = api.Training.within(layers, budget, may_replay, cell, PRECISIONS[dtype], *sizes)
    kind, cell_layers, chunk, peak = found
    if kind == "replay":
        return [Stash(kind, chunk, layers)], peak
    of_cells = [Stash("cells", chunk)] * cell_layers
    return of_cells + [Stash(kind, chunk if kind == "cells" else 0)] * (layers - cell_layers), peak


def plan(device, dtype, may_be_a_library, is_inference, *sizes):
    """Whether there is one, and its text, or why not. While torch compiles, it is called then, and not when that runs."""
    why = _library(device, dtype, is_inference, *sizes[:7], 1) if may_be_a_library and torch.backends.cudnn.enabled else ""
    layer = why or _layer(device, dtype, *sizes)
    return (False, layer) if isinstance(layer, str) else (True, layer.plan)


plan._dynamo_marked_constant = True  # as torch.compiler.assume_constant_result does, which imports what compiles


def on_device(lengths, device):
    """A copy of a tensor in pinned host memory; nothing waits for it."""
    if not is_compiling() and _is_capturing():
        _CAPTURED.append(lengths)
    return lengths.to(device, non_blocking=True)


def length_bytes(lengths):
    return 0 if lengths is None else lengths.element_size()


def _layer_of(cell, x, lengths, weights, directions, steps, mask=None, stash=GATES, may_be_a_library=False):
    """As _layer; or why torch's is faster."""
    batch = lengths.shape[0] if steps else x.shape[1]
    sizes = (x.shape[-1], weights[1].shape[1], batch, steps or x.shape[0], directions, length_bytes(lengths))
    why = _library(x.device, x.dtype, True, cell, *sizes, 1) if may_be_a_library and torch.backends.cudnn.enabled else ""
    return why or _layer(x.device, x.dtype, cell, *sizes, stash, *([mask] if mask else []))


def check(device):
    """See LSTM.check."""
    for key, layer in list(_LAYERS.items()):
        if key[0] == device and not isinstance(layer, str):
            with _context(device):
                return layer.check(_stream())


def _of_directions(weights, directions):
    """w_ih, w_hh, b_ih, b_hh of each; None for biases that are not there."""
    count = len(weights) // directions
    return [(*weights[d * count : (d + 1) * count], None, None)[:4] for d in range(directions)]


def _lstm(projected, product, _, c):
    i, f, g, o = (projected + product).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(projected, product, h):
    (r, z, n), (r_product, z_product, q) = projected.chunk(3, -1), product.chunk(3, -1)
    r, z = (r + r_product).sigmoid(), (z + z_product).sigmoid()
    n = (n + r * q).tanh()
    return (n + z * (h - n),)


def formula(cell, x, h0, c0, lengths, weights, directions, steps):
    """What a layer computes, by operations that can be differentiated any number of times. Without cn of a GRU."""
    if steps:
        is_there = lengths > torch.arange(steps, device=x.device).unsqueeze(1)
        x = x.new_zeros(*is_there.shape, x.shape[1]).index_put((is_there,), x)
        y, *finals = formula(cell, x, h0, c0, lengths, weights, directions, 0)
        return y[is_there], *finals
    outputs, finals = [], []
    for direction, (w_ih, w_hh, b_ih, b_hh) in enumerate(_of_directions(weights, directions)):
        zeros = x.new_zeros(x.shape[1], w_hh.shape[1])
        given = (h0, c0) if cell == "lstm" else (h0,)
        states = [zeros if state is None else state[direction] for state in given]
        y = [zeros] * x.shape[0]
        projected = torch.nn.functional.linear(x, w_ih, b_ih)
        for step in range(x.shape[0]) if direction == 0 else reversed(range(x.shape[0])):
            product = torch.nn.functional.linear(states[0], w_hh, b_hh)
            following = (_lstm if cell == "lstm" else _gru)(projected[step], product, *states)
            if lengths is None:
                states = following
                y[step] = states[0]
            else:
                is_there = (lengths > step).unsqueeze(1)
                states = [torch.where(is_there, new, old) for new, old in zip(following, states)]
                y[step] = torch.where(is_there, states[0], zeros)
        outputs.append(torch.stack(y))
        finals.append(states)
    return torch.cat(outputs, -1), *(torch.stack(states) for states in zip(*finals))


def _torchs(cell, x, h0, c0, lengths, weights, directions, steps, is_inference=False):
    """The same by torch's own layers, where they go without packing."""
    if lengths is not None:
        return formula(cell, x, h0, c0, lengths, weights, directions, steps)
    zeros = x.new_zeros(directions, x.shape[1], weights[1].shape[1])
    given = [zeros if state is None else state for state in (h0, c0)]
    options = len(weights) > 2 * directions, 1, 0.0, not is_inference, directions == 2, False
    if cell == "lstm":
        return torch._VF.lstm(x, given, weights, *options)
    return torch._VF.gru(x, given[0], weights, *options)


class _Addresses:
    """Of tensors, and of a direction's part of them."""

    def __init__(self):
        self.kept = []  # what is alive until all is enqueued

    def __call__(self, tensor, direction=0, elements=0):
        if tensor is None:
            return None
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
            self.kept.append(tensor)
        begin = tensor.data_ptr()
        return begin + direction * elements * tensor.element_size() if begin else None

    def parts(self, direction, **tensors):
        return {name: self(t, direction, 0 if t is None else t.numel() // max(1, len(t))) for name, t in tensors.items()}


def forward(cell, x, h0, c0, lengths, weights, directions, steps, mask=None, stash=GATES, keeps=True, is_inference=False):
    """y, hn, cn, and, where it `keeps`, what backward needs: every c, and the gates. An operator was compiled for other sizes, too:
    where there are no kernels for these, or is_inference, which has no backward, and cuDNN is faster, torch computes it."""
    is_stack = is_inference and directions == 1 and lengths is None and mask is None  # of one layer
    stash = Stash("none") if is_stack else stash
    layer = _layer_of(cell, x, lengths, weights, directions, steps, mask, stash, is_inference)
    has_gates = keeps and stash.kind == "gates"
    y, hn, cn, cells, kept = _empty(cell, x, lengths, weights, directions, steps, has_gates, mask is None)
    if keeps and not has_gates and not isinstance(layer, str):
        kept = x.new_empty(directions, layer.kept_bytes // x.element_size())
    if isinstance(layer, str):
        for to, found in zip((y, hn, cn), _torchs(cell, x, h0, c0, lengths, weights, directions, steps, is_inference)):
            to.copy_(found)
        return y, hn, cn, cells, kept
    if is_stack:
        return *_stack(layer, cell, x, h0, c0, weights, 1, layer.forward_bytes), cells, kept
    needed = layer.workspace_bytes
    if not keeps and layer.forward_bytes:
        needed = layer.forward_bytes
    elif not keeps:  # with a mask: it does all the same
        *_, cells, kept = _empty(cell, x, lengths, weights, directions, steps, is_dense=False)
    workspace, of = torch.empty(needed, dtype=torch.uint8, device=x.device), _Addresses()
    arrays = []
    for direction, (w_ih, w_hh, b_ih, b_hh) in enumerate(_of_directions(weights, directions)):
        own = of.parts(direction, h0=h0, c0=c0, hn=hn, cn=cn, cells=cells, kept=kept)
        arrays.append(
            dict(own, workspace=of(workspace), lengths=of(lengths), x=of(x), y=of(y, direction, hn.shape[-1]),
                 w_ih=of(w_ih), w_hh=of(w_hh), b_ih=of(b_ih), b_hh=of(b_hh), rows=len(x) if steps else 0)
        )  # fmt: skip
    with _context(x.device):
        layer.forward(_stream(), arrays)
    return y, hn, cn, cells, kept


def _empty(cell, x, lengths, weights, directions, steps, keeps=True, is_dense=True):
    rows, hidden = x.shape[:-1], weights[1].shape[1]
    gate_columns = (hidden + 7) // 8 * 8 if is_dense else hidden  # whole 16 bytes, as kept_bytes of a layer counts them
    batch = lengths.shape[0] if steps else x.shape[1]
    of_c = directions if cell == "lstm" else 0
    of_cells = rows if lengths is not None else (x.shape[0] + 1, batch)
    return (
        x.new_empty(*rows, directions * hidden),
        x.new_empty(directions, batch, hidden),
        x.new_empty(of_c, batch, hidden),
        x.new_empty(of_c if keeps else 0, *of_cells, hidden),
        x.new_empty(directions if keeps else 0, *rows, 4 * gate_columns),
    )


def backward(
    cell, x, h0, c0, lengths, weights, directions, steps, y, cells, kept, dy, dhn, dcn, needs, mask=None, stash=GATES
):
    """Gradients of x, h0, c0, and of each direction's w_ih, w_hh, b_ih and b_hh; None where `needs` is false. Overwrites
    `kept` gates."""
    layer = _layer_of(cell, x, lengths, weights, directions, steps, mask, stash)
    if isinstance(layer, str):
        return _gradients_of_torch(cell, x, h0, c0, lengths, weights, directions, steps, (dy, dhn, dcn), needs)
    hidden = weights[1].shape[1]
    found = _empty_gradients(x, h0, c0, weights, directions, needs)
    dx, dh0, dc0, *of_weights = found
    dy = torch.zeros_like(y) if dy is None else dy
    workspace, of = torch.empty(layer.workspace_bytes, dtype=torch.uint8, device=x.device), _Addresses()
    arrays = []
    for direction, (w_ih, w_hh, b_ih, b_hh) in enumerate(_of_directions(weights, directions)):
        own = of.parts(direction, h0=h0, c0=c0, cells=cells, kept=kept, dhn=dhn, dcn=dcn, dh0=dh0, dc0=dc0)
        dw_ih, dw_hh, db, db_hh = of_weights[4 * direction : 4 * direction + 4]
        arrays.append(
            dict(own, workspace=of(workspace), lengths=of(lengths), x=of(x), y=of(y, direction, hidden), b_ih=of(b_ih), b_hh=of(b_hh),
                 dy=of(dy, direction, hidden), w_ih=of(w_ih), w_hh=of(w_hh), dx=of(dx), dw_ih=of(dw_ih), dw_hh=of(dw_hh), db=of(db),
                 db_hh=of(db_hh), rows=len(x) if steps else 0)
        )  # fmt: skip
    with _context(x.device):
        layer.backward(_stream(), arrays)
    return found


def _gradients_of_torch(cell, x, h0, c0, lengths, weights, directions, steps, gradients, needs):
    """As backward, in a thread of its own: an operator runs where nothing is recorded."""
    stream = torch.cuda.stream(torch.cuda.current_stream(x.device)) if x.is_cuda else contextlib.nullcontext()

    def compute():
        with stream, torch.enable_grad():
            given = [None if tensor is None else tensor.detach().requires_grad_() for tensor in (x, h0, c0, *weights)]
            outputs = _torchs(cell, *given[:3], lengths, given[3:], directions, steps)
            outputs, seeds = zip(*((y, dy) for y, dy in zip(outputs, gradients) if dy is not None))
            found = iter(torch.autograd.grad(outputs, [tensor for tensor in given if tensor is not None], seeds))
        return [None if tensor is None else next(found) for tensor in given]

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(compute).result()
    found[3:] = [gradient for of_direction in _of_directions(found[3:], directions) for gradient in of_direction]
    return [gradient if needed else None for gradient, needed in zip(found, needs)]


def _empty_gradients(x, h0, c0, weights, directions, needs):
    like = [x, h0, c0, *(weight for of_direction in _of_directions(weights, directions) for weight in of_direction)]
    return [x.new_empty(tensor.shape) if needed else None for tensor, needed in zip(like, needs)]


def _needs(of_states, of_weights, directions):
    """As backward takes them, from those of x, h0, c0 and weights."""
    return [*of_states, *(bool(needed) for of in _of_directions(of_weights, directions) for needed in of)]


def _of_weights(found, count, directions):
    """Gradients of `count` weights, from those of backward behind its first three."""
    return [found[4 * direction + which] for direction in range(directions) for which in range(count // directions)]


def _differentiable(cell, x, h0, c0, lengths, weights, directions, steps, gradients, needs):
    """Gradients of x, h0, c0 and weights, step by step, to be differentiated."""

    def compute(x, h0, c0, *weights):
        return formula(cell, x, h0, c0, lengths, weights, directions, steps)

    return _differentiable_formula(compute, (x, h0, c0, *weights), gradients, needs)


def _differentiable_formula(compute, tensors, gradients, needs):
    # Aliases: h0 may itself depend on the weights, which is not this layer's to count.
    given = [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
    outputs = compute(*given)
    outputs, seeds = zip(*((y, dy) for y, dy in zip(outputs, gradients) if dy is not None))
    wanted = [tensor for tensor, needed in zip(given, needs) if needed]
    found = iter(torch.autograd.grad(outputs, wanted, seeds, create_graph=True, allow_unused=True))
    return [next(found) if needed else None for needed in needs]


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cell, directions, steps, mask, stash, lengths, x, h0, c0, *weights):
        y, hn, cn, cells, kept = forward(cell, x, h0, c0, lengths, weights, directions, steps, mask, stash)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(lengths, x, h0, c0, *weights, y, cells, kept)
        ctx.cell, ctx.directions, ctx.steps, ctx.mask, ctx.stash, ctx.is_kept = cell, directions, steps, mask, stash, True
        return y, hn, cn

    @staticmethod
    def backward(ctx, *gradients):
        lengths, x, h0, c0, *weights, y, cells, kept = ctx.saved_tensors
        given, needed = (ctx.cell, x, h0, c0, lengths, weights, ctx.directions, ctx.steps), ctx.needs_input_grad[6:]
        if torch.is_grad_enabled():  # create_graph: the gradients themselves are to be differentiated
            return (None,) * 6 + (*_differentiable(*given, gradients, needed),)
        if not ctx.is_kept:  # a backward has overwritten it, with retain_graph
            *_, cells, kept = forward(*given, ctx.mask)
        ctx.is_kept = ctx.stash.kind == "cells"
        needs = _needs(needed[:3], needed[3:], ctx.directions)
        found = backward(*given, y, cells, kept, *gradients, needs, ctx.mask, ctx.stash)
        return (None,) * 6 + (*found[:3], *_of_weights(found[3:], len(weights), ctx.directions))


def run(cell, x, h0, c0, lengths, weights, directions, steps=0, mask=None, stash=GATES):
    if is_compiling():
        is_inference = not torch.is_grad_enabled()
        return torch.ops.onchip.layer(cell, x, h0, c0, lengths, weights, directions, steps, is_inference)[:3]
    tensors = (tensor for tensor in (x, h0, c0, *weights) if tensor is not None)
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return forward(cell, x, h0, c0, lengths, weights, directions, steps, mask, stash, keeps=False)[:3]
    return _Layer.apply(cell, directions, steps, mask, stash, lengths, x, h0, c0, *weights)


def _stack_formula(cell, x, h0, c0, weights, layers):
    """As formula, of a stack of layers of one direction."""
    finals, count = [], len(weights) // layers
    for layer in range(layers):
        states = (None if state is None else state[layer : layer + 1] for state in (h0, c0))
        x, *final = formula(cell, x, *states, None, weights[layer * count : (layer + 1) * count], 1, 0)
        finals.append(final)
    return x, *(torch.cat(states) for states in zip(*finals))


def _of_stack(cell, x, weights, stash, may_be_a_library=False):
    """As _layer_of."""
    steps, batch, columns = x.shape
    sizes = columns, weights[1].shape[1], batch, steps, 1, 0
    why = _library(x.device, x.dtype, True, cell, *sizes, stash.layers) if may_be_a_library and torch.backends.cudnn.enabled else ""
    return why or _layer(x.device, x.dtype, cell, *sizes, stash)


def _arrays_of_layers(layer, of, weights, first, last, **of_all):
    """Addresses for each layer: its weights, its part of what all have, and what only the first and the last have."""
    arrays = layer.arrays(tuple(map(of, weights)))
    for name, tensor in of_all.items():
        begin = of(tensor)
        for number, own in enumerate(arrays if begin is not None else ()):
            setattr(own, name, begin + number * (tensor.numel() // len(arrays)) * tensor.element_size())
    for own, given in ((arrays[0], first), (arrays[-1], last)):
        for name, tensor in given.items():
            setattr(own, name, of(tensor))
    return arrays


def _stack(layer, cell, x, h0, c0, weights, layers, workspace_bytes, kept=None):
    """Forward of all layers."""
    hidden, of = weights[1].shape[1], _Addresses()
    state = (layers, x.shape[1], hidden)
    y, hn = x.new_empty(*x.shape[:2], hidden), x.new_empty(state)
    cn = x.new_empty(state if cell == "lstm" else (0,))
    workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=x.device)
    first = {"x": x, "kept": kept, "workspace": workspace}
    with _context(x.device):
        layer.forward(_stream(), _arrays_of_layers(layer, of, weights, first, {"y": y}, h0=h0, c0=c0, hn=hn, cn=cn))
    return y, hn, cn


def stack(cell, x, h0, c0, weights, stash):
    layer = _of_stack(cell, x, weights, stash, may_be_a_library=True)
    if isinstance(layer, str):
        return layer
    return layer.plan, _stack(layer, cell, x, h0, c0, weights, stash.layers, layer.forward_bytes)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cell, stash, x, h0, c0, *weights):
        layer = _of_stack(cell, x, weights, stash)
        kept = x.new_empty(layer.kept_bytes // x.element_size())
        y, hn, cn = _stack(layer, cell, x, h0, c0, weights, stash.layers, layer.workspace_bytes, kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, h0, c0, *weights, y, kept)
        ctx.cell, ctx.stash = cell, stash
        return y, hn, cn

    @staticmethod
    def backward(ctx, dy, dhn, dcn):
        x, h0, c0, *weights, y, kept = ctx.saved_tensors
        cell, stash, needs = ctx.cell, ctx.stash, ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # create_graph
            found = _differentiable_formula(
                lambda x, h0, c0, *weights: _stack_formula(cell, x, h0, c0, weights, stash.layers),
                (x, h0, c0, *weights), (dy, dhn, dcn), needs,
            )  # fmt: skip
            return (None, None, *found)
        layer, of, layers = _of_stack(cell, x, weights, stash), _Addresses(), stash.layers
        dx, dh0, dc0, *_ = (x.new_empty(tensor.shape) if needed else None for tensor, needed in zip((x, h0, c0), needs))
        dy = torch.zeros_like(y) if dy is None else dy
        gates, found = {"lstm": 4, "gru": 3}[cell], []

        def empty_gradient(weight):
            """Of a matrix in fp32, with each gate's units and the columns up to the next multiple of 8."""
            if weight.dim() == 1:
                return x.new_empty(weight.shape)
            rows, columns = ((size + 7) // 8 * 8 for size in (weight.shape[0] // gates, weight.shape[1]))
            return x.new_empty(gates, rows, columns, dtype=torch.promote_types(x.dtype, torch.float32))

        arrays = _arrays_of_layers(
            layer, of, weights, {"x": x, "kept": kept, "dx": dx}, {"y": y, "dy": dy},
            h0=h0, c0=c0, dhn=dhn, dcn=dcn, dh0=dh0, dc0=dc0,
        )  # fmt: skip
        count = len(weights) // layers
        for number, needed in enumerate(needs[3:]):
            found.append(empty_gradient(weights[number]) if needed else None)
            setattr(arrays[number // count], ("dw_ih", "dw_hh", "db", "db_hh")[number % count], of(found[-1]))
        workspace = torch.empty(layer.workspace_bytes, dtype=torch.uint8, device=x.device)
        arrays[0].workspace = of(workspace)
        with _context(x.device):
            layer.backward(_stream(), arrays)
        del workspace
        for number, weight in enumerate(weights):
            if found[number] is not None and weight.dim() == 2:
                of_gates = found[number][:, : weight.shape[0] // gates, : weight.shape[1]]
                found[number] = of_gates.to(x.dtype).reshape(weight.shape)
        return (None, None, dx, dh0, dc0, *found)


def replay(cell, x, h0, c0, weights, stash):
    return _Replay.apply(cell, stash, x, h0, c0, *weights)


_HAS_OPERATORS = hasattr(torch.library, "custom_op")


def is_compiling():
    return _HAS_OPERATORS and torch.compiler.is_compiling()


if _HAS_OPERATORS:
    _Five = Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]

    @torch.library.custom_op("onchip::layer", mutates_args=())
    def _forward_operator(
        cell: str, x: Tensor, h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor], weights: List[Tensor],
        directions: int, steps: int, is_inference: bool,
    ) -> _Five:  # fmt: skip
        return forward(cell, x, h0, c0, lengths, weights, directions, steps, None, GATES, not is_inference, is_inference)

    @_forward_operator.register_fake
    def _(cell, x, h0, c0, lengths, weights, directions, steps, is_inference):
        return _empty(cell, x, lengths, weights, directions, steps, not is_inference)

    # Empty where `needs` is false: operators have no lists of what may be none. And none that return lists may overwrite.
    @torch.library.custom_op("onchip::layer_backward", mutates_args=())
    def _backward_operator(
        cell: str, x: Tensor, h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor], weights: List[Tensor],
        directions: int, steps: int, y: Tensor, cells: Tensor, kept: Tensor, dy: Optional[Tensor], dhn: Optional[Tensor],
        dcn: Optional[Tensor], needs: List[bool],
    ) -> List[Tensor]:  # fmt: skip
        found = backward(cell, x, h0, c0, lengths, weights, directions, steps, y, cells, kept.clone(), dy, dhn, dcn, needs)
        return [x.new_empty(0) if tensor is None else tensor for tensor in found]

    @_backward_operator.register_fake
    def _(cell, x, h0, c0, lengths, weights, directions, steps, y, cells, kept, dy, dhn, dcn, needs):
        found = _empty_gradients(x, h0, c0, weights, directions, needs)
        return [x.new_empty(0) if tensor is None else tensor for tensor in found]

    def _setup(ctx, inputs, output):
        ctx.cell, x, h0, c0, lengths, weights, ctx.directions, ctx.steps, _ = inputs
        y, _, _, cells, kept = output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(lengths, x, h0, c0, *weights, y, cells, kept)

    def _backward(ctx, dy, dhn, dcn, *_):
        lengths, x, h0, c0, *weights, y, cells, kept = ctx.saved_tensors
        _, *of_states, _, of_weights, _, _, _ = ctx.needs_input_grad
        needs = _needs(of_states, of_weights, ctx.directions)
        found = torch.ops.onchip.layer_backward(
            ctx.cell, x, h0, c0, lengths, weights, ctx.directions, ctx.steps, y, cells, kept, dy, dhn, dcn, needs
        )  # fmt: skip
        found = [tensor if needed else None for tensor, needed in zip(found, needs)]
        return (None, *found[:3], None, _of_weights(found[3:], len(weights), ctx.directions), None, None, None)

    _forward_operator.register_autograd(_backward, setup_context=_setup)
