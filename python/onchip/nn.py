# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM and GRU that train on the chip where they can. Imports torch; the package imports this at its first use.

    lstm = onchip.LSTM(512, 512, num_layers=2).half().cuda()  # in the place of torch.nn.LSTM
    onchip.replace(model)                                     # or in a model that is there
    y, (h, c) = lstm(x, lengths=lengths)                      # samples of other lengths, which may lie on the GPU
    print(lstm.explain())                                     # what the last forward ran on
    lstm.stash_("cells")                                      # keep less for backward, which computes the gates again
    lstm.memory_("8 GiB")                                     # or as little as that takes
"""
import contextlib
import copy
import functools
import warnings

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import api, dynamo, recurrent_layer

MOST_AT_ONCE = 16  # layers of a stack without gradients


def _is_on_device(tensor):
    return tensor.is_cuda


def _autocast_dtype():
    """None outside of autocast."""
    if not torch.is_autocast_enabled():
        return None
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype("cuda")
    return torch.get_autocast_gpu_dtype()


def _no_autocast():
    return torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled() else contextlib.nullcontext()


def _is_transformed():
    """Whether torch.func or torch.jit.trace sees torch's operations instead of values."""
    peek = getattr(torch._C._functorch, "peek_interpreter_stack", None)
    return not recurrent_layer.is_compiling() and (torch.jit.is_tracing() or peek is not None and peek() is not None)


def _of_type(weights, dtype):
    """Of all directions in one list."""
    return [weight if weight.dtype == dtype else weight.to(dtype) for of_direction in weights for weight in of_direction]


def _bytes(budget):
    """Of "8 GiB", or a number."""
    units = {"B": 1, **{prefix + "iB": 2 ** (10 * power) for power, prefix in enumerate("KMGT", 1)}}
    units |= {prefix + "B": 10 ** (3 * power) for power, prefix in enumerate("kMGT", 1)}
    try:
        number, unit = budget.split() if isinstance(budget, str) else (budget, "B")
        return float(number) * units[unit]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"memory is {budget!r}; expected bytes, or a text such as '8 GiB'") from None


@functools.lru_cache(maxsize=128)
def _lengths(batch_sizes):
    """Of a packed sequence's samples, in its order; in pinned memory, which a captured graph may copy from."""
    ascending = torch.tensor(batch_sizes[::-1])
    lengths = len(batch_sizes) - torch.searchsorted(ascending, torch.arange(batch_sizes[0]), right=True)
    return lengths.pin_memory() if torch.cuda.is_available() else lengths


class _OnChip:
    """Of torch.nn.LSTM or GRU: forward and backward run on the chip for fp16 and bf16 on a CUDA device, also under autocast and
    torch.compile(fullgraph=True); all else (proj_size, other types, weights that do not fit) silently takes torch's own path,
    which breaks a graph of torch.compile as torch.nn.LSTM does, and as packed sequences do.
    A gradient of gradients is computed step by step, by torch's operations. Inside, states are a tuple, also of a GRU."""

    _path = "no forward yet"
    _masks = None
    _stash, _memory = None, None  # None: the gates of all layers
    _reverse = False

    def __init__(self, *arguments, stash=None, memory=None, reverse=False, **options):
        """torch's, and what stash_() and memory_() take. reverse: every layer goes from the last step to the first, as between two
        flips, which inference on the chip goes without; not with a second direction, lengths and packed sequences."""
        super().__init__(*arguments, **options)
        if reverse and self.bidirectional:
            raise ValueError("reverse goes without a second direction")
        self._reverse = reverse
        if stash is not None:
            self.stash_(stash)
        if memory is not None:
            self.memory_(memory)

    def stash_(self, stash):
        """What forward keeps for backward beside its output: "gates", all of them, or "cells", an LSTM's state now and then, from
        which backward computes the gates of some steps at a time again, also where cuDNN is faster; or a list of these, one for
        each layer. "replay": only the states of all layers now and then, from which backward runs forward again, some steps at a
        time; not with a second direction, lengths or dropout. Under torch.compile, and after sparse_(), it is the gates. Returns
        the module."""
        each = [stash] * self.num_layers if isinstance(stash, str) else list(stash)
        if len(each) != self.num_layers or not (stash == "replay" or set(each) <= {"gates", "cells"}):
            kinds = ", ".join(api.STASHES)
            raise ValueError(f"stash is {stash!r}; expected one of {kinds}, or a list of gates and cells, one for each layer")
        if stash == "replay" and self._why_no_replay():
            raise ValueError(self._why_no_replay())
        self._stash, self._memory = stash if stash == "replay" else each, None
        return self

    def _why_no_replay(self, lengths=False):
        """A sentence, or None."""
        for is_so, what in (
            (self.bidirectional, "a second direction"),
            (lengths, "lengths"),
            (self.dropout and self.training and self.num_layers > 1, "dropout between layers"),
            (self.num_layers > 16, "more than 16 layers"),
        ):
            if is_so:
                return f"a stash of replay goes without {what}; cells need the next least memory"
        return None

    def memory_(self, budget):
        """Keeps what takes the least time of all that takes at most so much device memory for an iteration of this module, beside
        its input and weights: gates, or cells in the first layers or in all, or replay, and of these chunks of fewer steps. Does
        not train by cuDNN; warns where nothing takes so little. budget: bytes, or a text such as "8 GiB". Returns the module."""
        self._memory, self._stash = _bytes(budget), None
        return self

    def _stash_of(self, dtype, *sizes):
        """Of each layer a Stash, or one of replay of all. For sizes: input, hidden, batch, steps, directions, the bytes of a length."""
        gates = [recurrent_layer.GATES] * self.num_layers
        if self._masks or recurrent_layer.is_compiling() or (self._memory is None and self._stash is None):
            return gates
        if self._memory is None:
            if self._stash != "replay":
                return [recurrent_layer.Stash(stash) for stash in self._stash]
            if self._why_no_replay(sizes[-1] > 0):
                raise ValueError(self._why_no_replay(sizes[-1] > 0))
            return [recurrent_layer.Stash("replay", 0, self.num_layers)] if torch.is_grad_enabled() else gates
        may_replay = torch.is_grad_enabled() and self._why_no_replay(sizes[-1] > 0) is None
        stashes, peak = recurrent_layer.within(self.num_layers, self._memory, may_replay, self._cell, dtype, *sizes)
        if peak > self._memory:
            warnings.warn(
                f"onchip.{self._cell.upper()} needs {peak / 2**30:.2f} GiB for {sizes[3]} steps of {sizes[2]} samples, "
                f"more than the {self._memory / 2**30:.2f} GiB given to it"
            )
        return stashes

    def explain(self):
        """On what the last forward ran, and why: "on the chip; dense_training ...", or "torch: ..."."""
        return self._path

    def forward(self, input, hx=None, lengths=None):
        """As torch's. lengths: of each sample, [batch], int32, int64 or a list, as pack_padded_sequence takes them, but not
        sorted, and on any device: nothing waits for those on a GPU, and a CUDA graph may be replayed with others. The output
        is zero beyond them; input there does not matter."""
        if recurrent_layer.is_compiling() and isinstance(input, PackedSequence):
            return self._forward_as_it_is(input, hx)
        if isinstance(lengths, (list, tuple)) and all(type(length) is int for length in lengths):
            lengths = torch.tensor(lengths)
        self._check_lengths(input, lengths)
        if self._reverse and (lengths is not None or isinstance(input, PackedSequence)):
            raise ValueError("reverse goes without lengths and packed sequences")
        states = hx if hx is None or self._cell == "lstm" else (hx,)
        weights = self._weights()
        why = self._why_not(input, states, weights)
        if why is None:
            dtype = self._dtype(input)
            with _no_autocast():
                try:
                    found = self._on_chip(input, states, lengths, dtype, weights)
                except api.CudaError as problem:  # in a context that has a part of the chip; nothing has run
                    if "CooperativeLaunchTooLarge" not in str(problem):
                        raise
                    found = "the kernels take more SMs than this context has"
            if not isinstance(found, str):
                y, final = found
                return y, final if self._cell == "lstm" else final[0]
            why = found
        self._path = f"torch: {why}"
        return self._forward_of_torch(input, hx, lengths)

    def _forward_as_it_is(self, input, hx):
        return self.forward(input, hx)

    def _forward_of_torch(self, input, hx, lengths):
        if lengths is None:
            dim = 1 if self._reverse and self.batch_first and input.dim() == 3 else 0
            y, final = super().forward(self._flipped(input, dim), hx)
            return self._flipped(y, dim), final
        packed = pack_padded_sequence(input, lengths.cpu(), self.batch_first, enforce_sorted=False)
        output, final = super().forward(packed, hx)
        steps = input.shape[1 if self.batch_first else 0]
        return pad_packed_sequence(output, self.batch_first, total_length=steps)[0], final

    def check(self):
        """Waits for the current stream; onchip.CudaError if a kernel on the device has given up waiting, or has found a length
        that is none: what it should have computed is NaN. The next forward or backward raises it in any case; after replays
        of a graph, only this asks."""
        recurrent_layer.check(self.weight_hh_l0.device)

    @staticmethod
    def _dtype(input):
        if isinstance(input, PackedSequence):
            input = input.data
        autocast = _autocast_dtype()
        return input.dtype if autocast is None or input.dtype == torch.float64 else autocast

    def _weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def _check_lengths(self, input, lengths):
        """What torch would have words for is left to it."""
        if lengths is None:
            return
        if isinstance(input, PackedSequence) or input.dim() != 3:
            raise ValueError("lengths go with a batch of padded sequences")
        steps, batch = input.shape[:2][:: -1 if self.batch_first else 1]
        if not torch.is_tensor(lengths) or lengths.dtype not in (torch.int32, torch.int64) or lengths.shape != (batch,):
            raise ValueError(f"lengths must be a tensor of {batch} int32 or int64, one for each sample")
        if lengths.device.type == "cpu" and not recurrent_layer.is_compiling() and not ((lengths > 0) & (lengths <= steps)).all():
            raise ValueError(f"lengths must be from 1 to {steps}, the steps of the input")

    def _why_not(self, input, hx, weights):
        """A sentence, or None. Input that nobody takes is left to torch, which has the words for it."""
        is_packed = isinstance(input, PackedSequence)
        x = input.data if is_packed else input
        if _is_transformed():
            return "torch.func and torch.jit take torch's operations apart"
        if not torch.is_tensor(x) or not _is_on_device(x):
            return "the input is not on a CUDA device"
        if self.proj_size:
            return "proj_size"
        dtype = self._dtype(x)
        if dtype not in recurrent_layer.PRECISIONS:
            return f"the input is {dtype}; the chip trains in float16 and bfloat16"
        if x.dim() not in ((2,) if is_packed else (2, 3)) or x.shape[-1] != self.input_size or x.numel() == 0:
            return f"the input has shape {list(x.shape)}"
        tensors = [weight for of_direction in weights for weight in of_direction]
        if hx is not None:
            directions = 2 if self.bidirectional else 1
            batch = [int(input.batch_sizes[0])] if is_packed else []
            batch = [x.shape[0 if self.batch_first else 1]] if x.dim() == 3 else batch
            shape = (self.num_layers * directions, *batch, self.hidden_size)
            count = 2 if self._cell == "lstm" else 1
            if len(hx) != count or not all(torch.is_tensor(state) and state.shape == shape for state in hx):
                return f"hx is not {count} of shape {list(shape)}"
            tensors += hx
        for tensor in tensors:
            if tensor.device != x.device:
                return f"the input is on {x.device}, and a weight or state on {tensor.device}"
            if tensor.dtype != dtype and _autocast_dtype() is None:
                return f"the input is {dtype}, and a weight or state {tensor.dtype}"
        return None

    def _on_chip(self, input, hx, lengths, dtype, weights):
        """As forward; or why not, before anything has run."""
        if isinstance(input, PackedSequence):
            return self._packed(input, hx, dtype, weights)
        x = input.to(dtype)
        is_batched = x.dim() == 3
        if not is_batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        if hx is not None:
            hx = tuple(state.to(dtype) if is_batched else state.to(dtype).unsqueeze(1) for state in hx)
        if lengths is not None:
            lengths = lengths.to(x.device)
        found = self._layers(x, hx, lengths, weights)
        if isinstance(found, str):
            return found
        y, final = found
        if not is_batched:
            return y.squeeze(1), tuple(state.squeeze(1) for state in final)
        return y.transpose(0, 1) if self.batch_first else y, final

    def _packed(self, input, hx, dtype, all_weights):
        """In the packed order of rows and of samples, which is that of their lengths."""
        data, batch_sizes, in_order, back = input
        x, steps, batch, lengths = data.to(dtype), len(batch_sizes), int(batch_sizes[0]), None
        if steps * batch > len(x):
            lengths = recurrent_layer.on_device(_lengths(tuple(batch_sizes.tolist())), x.device)
        else:
            x, steps = x.view(steps, batch, -1), 0
        if hx is not None:
            hx = tuple(state.to(dtype) if in_order is None else state.to(dtype).index_select(1, in_order) for state in hx)
        found = self._layers(x, hx, lengths, all_weights, steps)
        if isinstance(found, str):
            return found
        y, final = found
        if back is not None:
            final = tuple(state.index_select(1, back) for state in final)
        return PackedSequence(y if steps else y.flatten(0, 1), batch_sizes, in_order, back), final

    def _layers(self, x, hx, lengths, all_weights, packed_steps=0):
        """All layers for x [steps, batch, input], or of packed rows; or why not, before anything has run."""
        steps, batch = (packed_steps, len(lengths)) if packed_steps else x.shape[:2]
        if recurrent_layer.is_compiling():  # chosen for these sizes; the operator makes kernels for others when it runs
            steps, batch = dynamo.hint(steps), dynamo.hint(batch)
        directions = 2 if self.bidirectional else 1
        masks = self._masks or [None] * self.num_layers
        if self._masks and (directions == 2 or lengths is not None or recurrent_layer.is_compiling()):
            return "sparse_() goes without lengths, a second direction and torch.compile"
        inputs = [self.input_size] + [directions * self.hidden_size] * (self.num_layers - 1)
        of_sequences = (self.hidden_size, batch, steps, directions, recurrent_layer.length_bytes(lengths))
        is_inference = not torch.is_grad_enabled()
        may_be = is_inference and not recurrent_layer.is_compiling() and lengths is None and not self._masks
        if may_be and directions == 1 and self.num_layers <= MOST_AT_ONCE and not (self.dropout and self.training):
            h0, c0 = (*(hx or (None,)), None)[:2]
            stash = recurrent_layer.Stash("none", 0, self.num_layers, self._reverse)
            found = recurrent_layer.stack(self._cell, x, h0, c0, _of_type(all_weights, x.dtype), stash)
            if isinstance(found, str):
                return found
            text, (y, *finals) = found
            self.__dict__["_path"] = f"on the chip; {text}"  # a module's own way to set what is no parameter takes long
            return y, tuple(finals[: 2 if self._cell == "lstm" else 1])
        try:
            stashes = self._stash_of(x.dtype, self.input_size, *of_sequences)
        except (OSError, api.ApiError):  # a layer says so, too
            stashes = [recurrent_layer.GATES] * self.num_layers
        x, texts = self._flipped(x), []
        for input, mask, stash in dict.fromkeys(zip(inputs, masks, stashes)):
            sizes = (input, *of_sequences, stash)
            # cuDNN has no gradients of a module that evaluates, and keeps more than who wants less memory has asked for.
            is_bounded = any(of.kind != "gates" for of in stashes) or self._memory is not None
            may_be = not mask and (is_inference or (self.training and not is_bounded)), is_inference
            is_there, text = recurrent_layer.plan(x.device, x.dtype, *may_be, self._cell, *sizes, *([mask] if mask else []))
            if not is_there:
                return text
            texts.append(text)
        if stashes[0].kind == "replay":
            weights = _of_type(all_weights, x.dtype)
            h0, c0 = (*(hx or (None,)), None)[:2]
            x, *finals = recurrent_layer.replay(self._cell, x, h0, c0, weights, stashes[0])
            self._path = f"on the chip; {texts[0]}"
            return self._flipped(x), tuple(finals[: 2 if self._cell == "lstm" else 1])
        finals = []
        for layer in range(self.num_layers):
            of_layer = slice(layer * directions, (layer + 1) * directions)
            weights = _of_type(all_weights[of_layer], x.dtype)
            h0, c0 = (None, None) if hx is None else (*(state[of_layer] for state in hx), None)[:2]
            given = (h0, c0, lengths, weights, directions, packed_steps, masks[layer], stashes[layer])
            x, *final = recurrent_layer.run(self._cell, x, *given)
            finals.append(final if self._cell == "lstm" else final[:1])
            if self.dropout and layer + 1 < self.num_layers:
                x = torch.nn.functional.dropout(x, self.dropout, self.training)
        self._path = f"on the chip; {'; '.join(dict.fromkeys(texts))}"
        return self._flipped(x), tuple(finals[0]) if len(finals) == 1 else tuple(torch.cat(states) for states in zip(*finals))

    def _flipped(self, x, dim=0):
        return x.flip(dim) if self._reverse else x

    # torch.jit.script asks for what it can compile, and quantize_dynamic sets a qconfig.

    def __prepare_scriptable__(self):
        """torch's module with the same parameters: torch.jit.script compiles that."""
        if self._reverse:
            raise ValueError("torch.jit.script has no reverse: flip what goes in and what comes out")
        plain = copy.copy(self)
        plain.__class__ = next(torchs for torchs, ours in _REPLACED.items() if isinstance(self, ours))
        return plain

    @property
    def qconfig(self):
        return self._qconfig

    @qconfig.setter
    def qconfig(self, value):
        warnings.warn(f"onchip.{self._cell.upper()} is not quantized: quantize torch.nn.{self._cell.upper()} before replace()")
        self._qconfig = value

    @qconfig.deleter
    def qconfig(self):
        del self._qconfig


class LSTM(_OnChip, torch.nn.LSTM):
    __doc__ = _OnChip.__doc__
    _cell = "lstm"

    def sparse_(self, enabled=True):
        """From now on recurrent weights that are zero now stay zero: weight_hh is read, and has gradients, only where it is not
        zero now, as torch.nn.utils.prune or zeros leave it, and only that is kept on the chip. Call it again after pruning
        further. Where it does not fit, torch's path computes all gradients: explain() says so. Returns the module."""
        names = [of[1] for of in self._all_weights]
        self._masks = [recurrent_layer.Mask(getattr(self, name)) for name in names] if enabled else None
        return self


class GRU(_OnChip, torch.nn.GRU):
    __doc__ = _OnChip.__doc__
    _cell = "gru"


_REPLACED = {torch.nn.LSTM: LSTM, torch.nn.GRU: GRU}
# Packed sequences, and what torch.compile would trace step by step.
dynamo.trace((LSTM, GRU), _OnChip, ("_forward_as_it_is", "_forward_of_torch"))


def replace(model):
    """Makes every torch.nn.LSTM and GRU of the model (itself, too) onchip's, in place: parameters, hooks, and who holds a
    module stay as they are. Subclasses of them, parametrized ones among them, are left alone with a warning that names them.
    Returns the model."""
    for name, module in model.named_modules():
        if type(module) in _REPLACED:
            module.__class__ = _REPLACED[type(module)]
        elif isinstance(module, tuple(_REPLACED)) and not isinstance(module, _OnChip):
            warnings.warn(f"onchip.replace leaves '{name}' as it is: {type(module).__name__} is a class of its own")
    return model
