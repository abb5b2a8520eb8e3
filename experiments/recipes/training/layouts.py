#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The products of an LSTM layer (input = hidden, weights [4H, H]) in four layouts of x, h and gates, by cuBLAS. The batch is
innermost in the last two, as in EcoRNN (Zheng and Pekhimenko, 2018):
  tbh     [T, B, H], Y = X W^T: cuBLAS gets T, N with m = 4H, n = B. What PyTorch and cuDNN have.
  tbh_wt  [T, B, H], W transposed beforehand, Y = X Wt: N, N with m = 4H, n = B
  thb     [T, H, B], Y^T = W X^T: N, N with m = B, n = 4H. All steps at once are a strided batched product, as steps are outside;
          the gradient of W is a product for each step, added up by beta = 1.
  htb     [H, T, B], the same with rows T * B apart (ld). All steps are one product, and so is the gradient of W.
Row-major matrices are cuBLAS's transposes. Each has a dimension of stride 1 and results go to out=, so that torch copies none.

The products, in us per step: recurrent_product, W h of 64 steps one after another in a CUDA graph (h is given; without the cell,
nothing runs between them); input_product, W x of all steps at once; weight_product, the gradient of W over all steps. Of these two
a graph has up to 16 copies. Results are compared with the first layout's. A CSV: medians of interleaved rounds, least and most.

About a minute on a GPU.
  PYTHONPATH=python experiments/recipes/training/layouts.py > experiments/data/h200/layouts.csv"""
import statistics
import sys

import torch
from training_torch import captured, us

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCES = {"fp32": 3e-5, "tf32": 4e-3, "fp16": 1e-2, "bf16": 5e-2}  # of the largest element
SIZES = [(hidden, batch) for hidden in (512, 650, 1024, 2048, 4096) for batch in (16, 32, 64, 128)]
CASES = [(precision, *size) for precision in ("fp32", "tf32", "fp16") for size in SIZES] + [("bf16", 1024, 64)]
STEPS, ROUNDS = 64, 8
PRODUCTS = ("recurrent_product", "input_product", "weight_product")
KEY = "device,cell,precision,hidden,batch,steps,layers,product"


# Of w [4H, H], x [T, B, H] and the gates' gradients [T, B, 4H]: gates as [T, B, 4H], dw as [4H, H], and what computes each product.
def tbh(w, x, dgates, is_transposed=False):
    wt = w.t().contiguous() if is_transposed else w.t()
    gates, dwt = torch.empty_like(dgates), torch.empty_like(wt)  # dwt has wt's strides
    all_x, all_gates, all_dgates = (tensor.flatten(0, 1) for tensor in (x, gates, dgates))
    return gates, dwt.t(), [lambda: [torch.mm(x_t, wt, out=gates_t) for x_t, gates_t in zip(x, gates)],
                            lambda: torch.mm(all_x, wt, out=all_gates),
                            lambda: torch.mm(all_x.t(), all_dgates, out=dwt)]  # fmt: skip


def thb(w, x, dgates):
    x, dgates = (tensor.permute(0, 2, 1).contiguous() for tensor in (x, dgates))
    gates, dw = torch.empty_like(dgates), torch.empty_like(w)
    return gates.permute(0, 2, 1), dw, [lambda: [torch.mm(w, x_t, out=gates_t) for x_t, gates_t in zip(x, gates)],
                                        lambda: torch.bmm(w.expand(len(x), -1, -1), x, out=gates),
                                        lambda: [torch.addmm(dw, dgates[t], x[t].t(), beta=min(t, 1), out=dw) for t in range(len(x))]]  # fmt: skip


def htb(w, x, dgates):
    x, dgates = (tensor.permute(2, 0, 1).contiguous() for tensor in (x, dgates))
    gates, dw = torch.empty_like(dgates), torch.empty_like(w)
    all_x, all_gates, all_dgates = (tensor.flatten(1) for tensor in (x, gates, dgates))
    return gates.permute(1, 2, 0), dw, [lambda: [torch.mm(w, x[:, t], out=gates[:, t]) for t in range(x.shape[1])],
                                        lambda: torch.mm(w, all_x, out=all_gates),
                                        lambda: torch.mm(all_dgates, all_x.t(), out=dw)]  # fmt: skip


LAYOUTS = {"tbh": tbh, "tbh_wt": lambda *given: tbh(*given, is_transposed=True), "thb": thb, "htb": htb}


def made(precision, hidden, batch, steps):
    """By product: by layout, what computes it and its result."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    shapes = (4 * hidden, hidden), (steps, batch, hidden), (steps, batch, 4 * hidden)
    given = [torch.randn(shape, device="cuda").to(TYPES[precision]) for shape in shapes]
    layouts = {name: layout(*given) for name, layout in LAYOUTS.items()}
    return {product: {name: (runs[i], dw if product == "weight_product" else gates) for name, (gates, dw, runs) in layouts.items()}
            for i, product in enumerate(PRODUCTS)}  # fmt: skip


def require_alike(runs, tolerance, case):
    first = None
    for name, (run, result) in runs.items():
        result.fill_(float("nan"))
        run()
        first = result.float() if first is None else first
        error = ((result.float() - first).abs().max() / first.abs().max()).item()
        if not error <= tolerance:
            sys.exit(f"{case}: {name} is off by {error:.2g} of the largest element")


def main():
    print(f"{KEY},{','.join(f'{name}_{kind}' for name in LAYOUTS for kind in ('us', 'low_us', 'high_us'))}")
    for precision, hidden, batch in CASES:
        for product, runs in made(precision, hidden, batch, STEPS).items():
            case = f"{torch.cuda.get_device_name()},lstm,{precision},{hidden},{batch},{STEPS},1,{product}"
            require_alike(runs, TOLERANCES[precision], case)
            copies = 1 if product == "recurrent_product" else min(16, max(1, int(5e10 / (hidden**2 * batch * STEPS))))
            graphs = [captured(lambda run=run: [run() for _ in range(copies)]) for run, _ in runs.values()]
            rounds = [[us(graph, STEPS * copies, 2) for graph in graphs] for _ in range(ROUNDS)][1:]
            print(case + "".join(f",{statistics.median(of):.4g},{min(of):.4g},{max(of):.4g}" for of in zip(*rounds)), flush=True)


if __name__ == "__main__":
    main()
