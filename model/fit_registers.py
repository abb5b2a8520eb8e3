#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the tables of model/registers.cpp to what the compiler does (needs numpy and scipy).

    fit_registers.py [--seconds S] PROBED.csv ...      prints the tables, and the pairs that they miss
    fit_registers.py --check PROBED.csv ...            the tables of model/registers.cpp on other data

registers.csv beside this file: sm_100 and sm_120 compiled from PTX of their own; most rows of sm_80 and sm_90 from PTX
for sm_80, with the same result in 147 of 157 rows that were also compiled from their own. Drawn shapes have few rows of
sm_100 and sm_120.

PROBED.csv is what tests/kernels/probe_registers.cpp writes: for a shape and an architecture the most words of weights
per thread that the compiler keeps in registers. What is left of the registers is what the shape's largest phase needs,

    needed = max over phases of (sum of terms)

A table should be at least that everywhere (else a plan that "fits" spills), and at most 8 more (else it is too
careful). The number of shapes and architectures for which it is neither is what is minimised: from linear programs, each
with the phase that binds every shape held, by annealing over whole numbers.
"""

import argparse
import csv
import pathlib
import random
import re
import time

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import linprog

ALLOWED = 8
BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8": 2}
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}

# Terms of model/registers.cpp in its order; the first is the base, those in WEIGHTS are given.
TERMS = {
    "staging": ["base", "two_planes", "many_planes", "per_load_of_many_planes", "gated", "tail", "ring", "few_words",
                "few_words_and_tail", "shifted_index", "many_rounds", "tall_tile", "sm_80", "sm_80_few_words",
                "sm_100", "sm_100_ring", "sm_100_many_loads"],
    "gather": ["base", "several_planes", "together_half", "dense_together", "tail_together", "gated", "tail",
               "ring", "gated_tail", "gated_ring", "gated_fp8", "gated_ring_fp8", "fp32", "tall_tile", "shifted_index", "sm_80",
               "sm_80_gated", "sm_80_together", "sm_100", "sm_100_gated_ring"],
    "finish": ["base", "gru", "many_tiles", "fp8"],
}
RANGE = {"base": (4, 24), "together_half": (0, 30), "per_load_of_many_planes": (0, 2)}
OTHERS = (-12, 16)


def given(row):
    """What a phase needs beside the terms: registers of the loads in flight, and of the sums."""
    threads, words = int(row["threads"]), int(row["state_words"])
    return {"staging": 4 * min(int(row["loads_in_flight"]), -(-words // threads)), "gather": sizes(row)["sums"],
            "finish": 0}


def needed(row, which):
    """Registers beside the weights; `which`: of the most words up to which nothing spills, or of the most words."""
    return int(row["registers"]) - int(row[which])


def sizes(row):
    unit_bytes = int(row["batch"]) * BYTES[row["precision"]]
    plane_bytes = min(16, unit_bytes)
    planes = unit_bytes // plane_bytes
    gates = GATES[row["cell"]]
    height = gates if gates > 1 else int(row["tile_rows"])
    return {"planes": planes, "plane_bytes": plane_bytes, "gates": gates, "height": height,
            "tiles": -(-int(row["rows_per_group"]) // height),
            "sums": int(row["tile_rows"]) * int(row["pass_planes"]) * int(row["batch"]) // planes}


def features(row):
    s = sizes(row)
    words, threads, loads = int(row["state_words"]), int(row["threads"]), int(row["loads_in_flight"])
    gated, tail, ring, dense = s["gates"] > 1, row["tail"] == "1", row["ring_chunks"] != "0", row["storage"] == "dense"
    few = not (words > threads * loads or s["planes"] > 2 or s["tiles"] > 2)
    several, together = s["planes"] > 1, row["pass_planes"] != "1"
    zero_units = max(32, 128 // s["plane_bytes"], (2 if row["precision"] == "fp32" and not dense else 4) *
                     int(row["lanes_per_row"]) if dense else 0)
    reach = words // s["planes"] * 16 + zero_units * s["plane_bytes"]
    sm_80, sm_100 = row["architecture"] == "sm_80", row["architecture"] in ("sm_100", "sm_120")
    return {
        "base": 1, "per_load_of_many_planes": min(loads, -(-words // threads)) * (s["planes"] > 2),
        "two_planes": s["planes"] == 2, "many_planes": s["planes"] > 2, "several_planes": several, "gated": gated,
        "tail": tail, "ring": ring, "few_words": few, "few_words_and_tail": few and tail,
        "shifted_index": reach > 65536, "sm_80": sm_80, "sm_80_few_words": sm_80 and few,
        "sm_100": sm_100, "sm_100_ring": sm_100 and ring,
        "sm_100_many_loads": sm_100 and min(loads, -(-words // threads)) > 3,
        "sm_100_gated_ring": sm_100 and gated and ring, "sm_80_together": sm_80 and together, "together": together,
        "together_half": together and row["precision"] != "fp32",
        "dense_together": together and dense, "tail_together": together and tail, "gated_tail": gated and tail,
        "gated_ring": gated and ring, "gated_fp8": gated and row["precision"] == "fp8",
        "gated_ring_fp8": gated and ring and row["precision"] == "fp8",
        "many_rounds": loads > 4 and -(-words // threads) > 3 * loads, "fp32": row["precision"] == "fp32", "fp8": row["precision"] == "fp8",
        "tall_tile": s["height"] > 1 and not gated,
        "sm_80_gated": sm_80 and gated, "gru": row["cell"] == "gru", "many_tiles": s["tiles"] > 2,
    }


class Data:
    """Equal rows of all phases are one: needed at least `low`, at most `high`."""

    def __init__(self, rows):
        groups = {}
        for row in rows:
            values, fixed = features(row), given(row)
            key = tuple((float(fixed[phase]),) + tuple(float(values[t]) for t in terms)
                        if phase != "finish" or values["gated"] else (-99.0,) + (0.0,) * len(terms)
                        for phase, terms in TERMS.items())
            groups.setdefault(key, []).append(row)
        self.groups = list(groups.values())
        self.fixed = [np.array([key[p][0] for key in groups]) for p in range(len(TERMS))]
        self.matrix = [np.array([key[p][1:] for key in groups]) for p in range(len(TERMS))]
        self.low = np.array([max(needed(r, "safe") for r in group) for group in self.groups], float)
        self.high = np.array([min(needed(r, "largest") for r in group) for group in self.groups], float)
        self.weight = np.sqrt([len(group) for group in self.groups])

    def phases(self, tables):
        return [f + m @ t for f, m, t in zip(self.fixed, self.matrix, tables)]


def cost(data, phases):
    predicted = np.maximum.reduce(phases)
    under, over = predicted - data.low, predicted - data.high
    return np.sum(np.where(under < 0, 12 - 3 * under, 0.25 * np.maximum(0, 1.5 - under)) +
                  data.weight * np.where(over > ALLOWED, 1 + 0.25 * (over - ALLOWED), 0.1 * np.maximum(0, over - 6)))


def linear_program(data, binding):
    """The tables with least slack, if `binding` has the phase that must be large enough for each group."""
    count, sizes_ = len(data.low), [m.shape[1] for m in data.matrix]
    ends = np.cumsum(sizes_)
    terms, eye, none = ends[-1], sparse.identity(count), sparse.csr_matrix((count, count))
    rows, limits = [], []
    enough = sparse.lil_matrix((count, terms))
    for p, matrix in enumerate(data.matrix):
        wide = sparse.lil_matrix((count, terms))
        wide[:, ends[p] - sizes_[p]:ends[p]] = matrix
        rows.append(sparse.hstack([wide, sparse.csr_matrix((count, terms)), -eye, none]))
        limits.append(data.high + ALLOWED - 1 - data.fixed[p])
        mine = np.flatnonzero(binding == p)
        enough[mine, ends[p] - sizes_[p]:ends[p]] = -matrix[mine]
    rows.append(sparse.hstack([enough, sparse.csr_matrix((count, terms)), none, -eye]))
    limits.append(np.choose(binding, data.fixed) - data.low - 1)
    for sign in (1, -1):
        rows.append(sparse.hstack([sign * sparse.identity(terms), -sparse.identity(terms),
                                   sparse.csr_matrix((terms, 2 * count))]))
        limits.append(np.zeros(terms))
    names = [t for terms_ in TERMS.values() for t in terms_]
    price = np.concatenate([np.zeros(terms), [0 if n == "base" else 0.05 for n in names], data.weight, np.full(count, 2.5)])
    bounds = [RANGE.get(n, OTHERS) for n in names] + [(0, None)] * (terms + 2 * count)
    solved = linprog(price, A_ub=sparse.vstack(rows).tocsr(), b_ub=np.concatenate(limits), bounds=bounds, method="highs")
    return solved.fun, np.split(solved.x[:terms], ends[:-1])


def fit(data, seconds, seed):
    randoms = np.random.default_rng(seed)
    tables = [np.array([12.0] + [0.0] * (len(t) - 1)) for t in TERMS.values()]
    best = None
    until = time.monotonic() + seconds / 3
    while time.monotonic() < until:
        phases = np.array(data.phases(best[1] if best and randoms.random() < 0.3 else tables))
        noise = 4 * randoms.normal(size=phases.shape) * (randoms.random() < 0.4) * (phases > -50)
        value, tables = linear_program(data, np.argmax(phases + noise, axis=0))
        if best is None or value < best[0]:
            best = value, tables
    starts = [[np.round(t) for t in best[1]], shipped()]
    return anneal(data, min(starts, key=lambda tables: cost(data, data.phases(tables))), 2 * seconds / 3, seed)


def anneal(data, tables, seconds, seed):
    rng = random.Random(seed)
    places = [(p, i) for p, terms in enumerate(TERMS.values()) for i in range(len(terms))]
    names = list(TERMS.values())

    def price(tables, phases):
        return cost(data, phases) + sum(0.1 * min(abs(v), 3) for t in tables for v in t[1:])

    phases = data.phases(tables)
    now = price(tables, phases)
    best = now, [t.copy() for t in tables]
    begin = time.monotonic()
    while (share := (time.monotonic() - begin) / seconds) < 1:
        temperature = 0.4 * (1 - share) ** 2 + 1e-3
        for _ in range(50):
            new, new_phases = [t.copy() for t in tables], list(phases)
            allowed = True
            for _ in range(rng.choice((1, 1, 2, 2, 3))):
                p, i = rng.choice(places)
                step = rng.choice((1, -1, 1, -1, 2, -2, 4, -4, -new[p][i]))
                low, high = RANGE.get(names[p][i], OTHERS)
                allowed = allowed and low <= new[p][i] + step <= high
                new[p][i] += step
                new_phases[p] = new_phases[p] + step * data.matrix[p][:, i]
            if not allowed:
                continue
            value = price(new, new_phases)
            if value < now or rng.random() < np.exp((now - value) / temperature):
                tables, phases, now = new, new_phases, value
                if value < best[0] - 1e-9:
                    best = value, [t.copy() for t in tables]
    return best


def shipped():
    text = (pathlib.Path(__file__).parent / "registers.cpp").read_text()
    tables = []
    for phase, terms in TERMS.items():
        body = re.search(r"k%s\{(.*?)\};" % phase.capitalize(), text, re.S).group(1)
        values = {name: float(value) for name, value in re.findall(r"\.(\w+) = (-?\d+)", body)}
        tables.append(np.array([values.get(term, 0.0) for term in terms]))
    return tables


def report(data, tables):
    predicted = np.maximum.reduce(data.phases(tables))
    pairs = within = spills = 0
    missed = []
    for group, registers in zip(data.groups, predicted):
        for row in group:
            spare, more = int(registers) - needed(row, "safe"), int(registers) - needed(row, "largest")
            pairs, within, spills = pairs + 1, within + (spare >= 0 and more <= ALLOWED), spills + (spare < 0)
            if spare < 0 or more > ALLOWED:
                missed.append((min(spare, more) if spare < 0 else more, " ".join(list(row.values())[:15])))
    for more, shape in sorted(missed):
        print(f"  {more:4d}  {shape}")
    print(f"{within} of {pairs} pairs within {ALLOWED}; {spills} would spill, {pairs - within - spills} are too careful")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    rows = [row for name in options.files for row in csv.DictReader(open(name, encoding="utf-8"))]
    # Where one pass takes several of more than two planes the compiler follows no rule: 31 to 142 registers beside the
    # weights. model/registers.cpp has a number of its own for these.
    rows = [row for row in rows if row["pass_planes"] == "1" or sizes(row)["planes"] == 2]
    data = Data(rows)
    tables = shipped() if options.check else fit(data, options.seconds, options.seed)[1]
    for (phase, terms), table in zip(TERMS.items(), tables):
        listed = ", ".join(f".{t} = {int(v)}" for t, v in zip(terms, table) if v)
        print(f"constexpr {phase.capitalize()} k{phase.capitalize()}{{{listed}}};")
    report(data, tables)


if __name__ == "__main__":
    main()
