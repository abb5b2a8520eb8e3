#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pruned LSTM of 4096 units, forward and all gradients: onchip.LSTM with its mask, torch.nn.LSTM, which is dense, and the
recurrences alone by cuBLAS and cuSPARSE, a product a step and no cells. A CSV of us per step, interleaved medians.
PYTHONPATH=python ONCHIP_LIBRARY=build/libonchip.so experiments/recipes/training/training_sparse.py"""
import statistics

import onchip
import torch
from training_torch import captured, iteration, us

HIDDEN, DENSITY, STEPS, ROUNDS = 4096, 0.1, 256, 5


def prune(lstm):
    with torch.no_grad():
        lstm.weight_hh_l0[torch.rand(lstm.weight_hh_l0.shape, device="cuda") > DENSITY] = 0
    return lstm


def recurrences(w_hh, batch, multiply):
    """h = W h, then dh = W^T dgates, of every step."""
    h = torch.zeros(HIDDEN, batch, device="cuda", dtype=w_hh.dtype)
    gates = torch.zeros(4 * HIDDEN, batch, device="cuda", dtype=w_hh.dtype)
    w, transposed = (m.to_sparse_csr() if multiply == "cuSPARSE" else m.contiguous() for m in (w_hh, w_hh.t()))

    def run():
        for _ in range(STEPS):
            torch.mm(w, h)
        for _ in range(STEPS):
            torch.mm(transposed, gates)

    return run


def main():
    print("gpu,hidden,density,batch,way,us_per_step")
    for batch in (4, 16):
        dense, run_dense = iteration(torch.nn.LSTM, torch.float16, HIDDEN, batch, STEPS, {})
        sparse, run_sparse = iteration(onchip.LSTM, torch.float16, HIDDEN, batch, STEPS, {})
        prune(sparse).sparse_()
        run_sparse()
        assert sparse.explain().startswith("on the chip; sparse"), sparse.explain()
        w_hh = sparse.weight_hh_l0.detach()
        ways = {"nn.LSTM": run_dense, "onchip.LSTM": run_sparse}
        ways |= {way: recurrences(w_hh, batch, way) for way in ("cuBLAS", "cuSPARSE")}
        timed = {}
        for way, run in ways.items():
            run()
            timed[way] = run
            try:
                timed[f"{way} in a graph"] = captured(run)
            except RuntimeError as problem:
                print(f"# {way} in a graph: {str(problem).splitlines()[0]}")
        found = {way: [] for way in timed}
        for _ in range(ROUNDS):
            for way, run in timed.items():
                found[way].append(us(run, STEPS, 2))
        for way, times in found.items():
            print(f"{torch.cuda.get_device_name()},{HIDDEN},{DENSITY},{batch},{way},{statistics.median(times):.2f}", flush=True)
        sparse.check()


if __name__ == "__main__":
    main()
