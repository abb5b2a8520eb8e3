# SPDX-License-Identifier: Apache-2.0
"""MLP attention (additive: Bahdanau, Cho and Bengio, arXiv 1409.0473), which never stores its [batch, queries, keys, hidden].
Imports torch; the package imports this at its first use.

    attention = onchip.MLPAttention(query_size=512, key_size=1024, hidden_size=512).half().cuda()
    context, weights = attention(queries, keys, mask=mask)
    scores = onchip.mlp_scores(q, k, v)     # sum over h of v[h] * tanh(q[b, t, h] + k[b, s, h])
"""
import functools
import warnings

import torch

from . import api, nn, recurrent_layer

PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


def formula(q, k, v):
    """As mlp_scores, by torch's operations."""
    y = (q.unsqueeze(2) + k.unsqueeze(1)).tanh()
    return (y * v).sum(-1) if recurrent_layer.is_compiling() else y @ v  # a sum can be compiled into one kernel with y


@functools.lru_cache(maxsize=None)
def _has_kernels(device, dtype):
    """Tries one pair, for which they are compiled."""
    try:
        one = torch.ones(1, 1, 1, device=device, dtype=dtype)
        _run("forward", one, one, one[0, 0], scores=torch.empty_like(one))
        return True
    except (OSError, api.ApiError) as problem:
        warnings.warn(f"onchip.mlp_scores takes torch's operations: {problem}")
        return False


def _is_torchs(q, k, v):
    """Whether torch's operations compute it."""
    return (
        recurrent_layer.is_compiling()
        or nn._is_transformed()
        or not all(nn._is_on_device(tensor) and tensor.device == q.device and tensor.dtype == q.dtype for tensor in (q, k, v))
        or q.dtype not in PRECISIONS
        or 0 in (q.numel(), k.numel())
        or not _has_kernels(q.device, q.dtype)
    )


def _run(which, q, k, v, **others):
    of, sizes = recurrent_layer._Addresses(), (PRECISIONS[q.dtype], *q.shape[:2], *k.shape[1:])
    with recurrent_layer._context(q.device):
        workspace = None
        if which == "backward":
            workspace = torch.empty(api.attention_workspace_bytes(*sizes), dtype=torch.uint8, device=q.device)
        arrays = {name: of(tensor) for name, tensor in dict(others, q=q, k=k, v=v, workspace=workspace).items()}
        api.attention(which, recurrent_layer._stream(), *sizes, **arrays)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:2], k.shape[1])
        _run("forward", q, k, v, scores=scores)
        return scores

    @staticmethod
    def backward(ctx, dscores):
        given, needs = ctx.saved_tensors, ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph: the gradients themselves are to be differentiated
            given = [tensor.view_as(tensor) for tensor in given]  # one may depend on another
            wanted = [tensor for tensor, needed in zip(given, needs) if needed]
            found = iter(torch.autograd.grad(formula(*given), wanted, dscores, create_graph=True))
            return tuple(next(found) if needed else None for needed in needs)
        found = [tensor.new_empty(tensor.shape) if needed else None for tensor, needed in zip(given, needs)]
        _run("backward", *given, dscores=dscores, **dict(zip(("dq", "dk", "dv"), found)))
        return tuple(found)


def mlp_scores(q, k, v):
    """scores[b, t, s] = sum over h of v[h] * tanh(q[b, t, h] + k[b, s, h]): [batch, queries, keys] of q [batch, queries, hidden],
    k [batch, keys, hidden] and v [hidden].

    On a CUDA device in float16, bfloat16 or float32, also under autocast, one kernel computes it, with sums in fp32 and a tanh
    that is good to 2e-6, and one all gradients, the same bits every time. torch's operations compute all else: the CPU, other types,
    torch.compile, torch.func, and gradients of gradients. The first call of a type compiles, which takes a second or two."""
    is_right = q.dim() == k.dim() == 3 and v.dim() == 1 and q.shape[0] == k.shape[0] and q.shape[2] == k.shape[2] == v.shape[0]
    if not is_right:
        raise ValueError(
            f"q, k and v have shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}; expected [batch, queries, hidden], "
            "[batch, keys, hidden] and [hidden]"
        )
    autocast = nn._autocast_dtype()
    if autocast is not None and nn._is_on_device(q) and q.dtype != torch.float64:
        q, k, v = (tensor.to(autocast) for tensor in (q, k, v))
    if _is_torchs(q, k, v):
        return formula(q, k, v)
    with nn._no_autocast():
        return _Scores.apply(q, k, v)


class MLPAttention(torch.nn.Module):
    """Attention by mlp_scores of projected queries and keys. Both projections are torch.nn.Linear without bias.

    query_size, key_size: elements of a query and of a key; hidden_size: of what both are projected to, and of v."""

    def __init__(self, query_size, key_size, hidden_size, device=None, dtype=None):
        super().__init__()
        self.query_size, self.key_size, self.hidden_size = query_size, key_size, hidden_size
        options = {"device": device, "dtype": dtype}
        self.query_projection = torch.nn.Linear(query_size, hidden_size, bias=False, **options)
        self.key_projection = torch.nn.Linear(key_size, hidden_size, bias=False, **options)
        self.v = torch.nn.Parameter(torch.empty(hidden_size, **options))
        self.reset_parameters()

    def reset_parameters(self):
        self.query_projection.reset_parameters()
        self.key_projection.reset_parameters()
        bound = max(self.hidden_size, 1) ** -0.5
        torch.nn.init.uniform_(self.v, -bound, bound)

    def extra_repr(self):
        return f"{self.query_size}, {self.key_size}, {self.hidden_size}"

    def forward(self, queries, keys, values=None, mask=None):
        """context [batch, queries, any] and weights [batch, queries, keys], which add up to 1 for each query, of queries [batch,
        queries, query_size] and keys [batch, keys, key_size]. values: [batch, keys, any], else the keys. mask: of bool, [batch, keys]
        or [batch, queries, keys], True where a query takes a key, as torch's scaled_dot_product_attention has it; a query that takes
        none has weights of NaN."""
        values = keys if values is None else values
        self._check(queries, keys, values, mask)
        scores = mlp_scores(self.query_projection(queries), self.key_projection(keys), self.v)
        if mask is not None:
            scores = scores.masked_fill(~(mask.unsqueeze(1) if mask.dim() == 2 else mask), float("-inf"))
        weights = scores.softmax(-1)
        return weights @ values, weights

    def _check(self, queries, keys, values, mask):
        given = {"queries": queries, "keys": keys, "values": values}
        wrong = [f"{name} have {tensor.dim()} dimensions; expected 3" for name, tensor in given.items() if tensor.dim() != 3]
        if not wrong:
            (batch, count, _), (_, of_keys, _) = queries.shape, keys.shape
            expected = {"queries": [batch, count, self.query_size], "keys": [batch, of_keys, self.key_size],
                        "values": [batch, of_keys, values.shape[2]]}  # fmt: skip
            wrong = [f"{name} have shape {list(given[name].shape)}; expected {shape}" for name, shape in expected.items()
                     if list(given[name].shape) != shape]  # fmt: skip
            shapes = [[batch, of_keys], [batch, count, of_keys]]
            if mask is not None and (mask.dtype != torch.bool or list(mask.shape) not in shapes):
                wrong.append(f"the mask is of {mask.dtype} and {list(mask.shape)}; expected bool and {shapes[0]} or {shapes[1]}")
        if wrong:
            raise ValueError(wrong[0])
