#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the tables of model/registers.cpp to what the compiler does (needs numpy and scipy).

    fit_registers.py [--seconds S] PROBED.csv ...      prints the tables, and the pairs that they miss
    fit_registers.py --check PROBED.csv ...            the tables of model/registers.cpp on other data

PROBED.csv is what tests/kernels/probe_registers.cpp writes: for a plan and an architecture the most words of weights per
thread that the compiler keeps in registers. What is left of the registers is what the plan's largest phase needs,

    needed = max over phases of (what is given + sum over facts of registers * fact)

A table should be at least that everywhere (else a plan that "fits" spills), and at most 8 more (else it is too
careful). The number of plans and architectures for which it is neither is what is minimised: from linear programs, each
with the phase that binds every plan held, by annealing over whole numbers.
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

# Of struct Facts in model/registers.cpp; `one` is the base.
FACTS = {
    "staging": ["one", "loads_of_many_planes", "two_planes", "many_planes", "gated", "gru", "tail", "ring", "few_words",
                "few_words_and_tail", "shifted_index", "many_rounds", "tall_tile", "fp32", "fp8", "sm_80",
                "sm_80_few_words", "sm_80_gated", "sm_100", "sm_100_gated", "sm_100_tail", "sm_100_ring",
                "sm_100_more_loads"],
    "gather": ["one", "several_planes", "together_half", "together_dense", "together_tail", "gated", "tail",
               "chunk_words", "ring", "gated_tail", "gated_ring", "gated_fp8", "fp8", "fp32", "bf16", "tall_tile",
               "shifted_index", "sm_80", "sm_80_gated", "sm_80_together", "sm_100", "sm_100_gated", "sm_100_ring"],
    "finish": ["one", "more_outputs", "gated_more_outputs", "lstm", "gru", "tail", "ring", "many_tiles", "fp8", "sm_80",
               "sm_80_gated", "sm_80_more_outputs", "sm_100", "sm_100_gated"],
}
PHASES = list(FACTS)
RANGE = {"one": (4, 26), "together_half": (0, 30), "loads_of_many_planes": (0, 2), "chunk_words": (0, 2),
         "sm_100_more_loads": (0, 3)}
OTHERS = (-12, 16)


def whole(a, b):
    return -(-a // b)


def facts(row):
    """Of a row, and what a phase needs beside them: registers of the loads in flight, and of the sums."""
    number = {name: int(row[name]) for name in
              ("hidden", "batch", "sms", "threads", "lanes_per_row", "rows_per_group", "loads_in_flight", "tile_rows",
               "pass_planes", "tail", "ring_chunks", "chunks_in_flight")}
    batch = 1 << (number["batch"] - 1).bit_length()
    element, gates, dense = BYTES[row["precision"]], GATES[row["cell"]], row["storage"] == "dense"
    plane_unit = min(16, batch * element)
    planes = batch * element // plane_unit
    whole_words = max(16 // plane_unit, 4 // element)
    units = number["sms"] * whole(whole(number["hidden"], number["sms"]), whole_words) * whole_words
    words = units * batch * element // 16
    rounds_of = whole(words, number["threads"])
    loads = min(number["loads_in_flight"], rounds_of)
    height = gates if gates > 1 else number["tile_rows"]
    tiles = whole(number["rows_per_group"], height)
    sums = number["tile_rows"] * number["pass_planes"] * batch // planes
    chunk_slots = 2 if row["precision"] == "fp32" and not dense else 4
    value_bits = {"fp16": 16, "bf16": 16, "fp32": 32, "fp8": 8}[row["precision"]]
    chunk_words = whole(chunk_slots * value_bits, 32)
    if not dense:
        chunk_words = chunk_slots if value_bits == 16 else chunk_words + (chunk_slots + 1) // 2
    zeros = max(32, 128 // plane_unit, chunk_slots * number["lanes_per_row"] if dense else 0)
    gated, tail, ring, together = gates > 1, number["tail"] > 0, number["ring_chunks"] > 0, number["pass_planes"] > 1
    few = words <= number["threads"] * number["loads_in_flight"] and planes <= 2 and tiles <= 2
    sm_80, sm_100 = row["architecture"] == "sm_80", row["architecture"] in ("sm_100", "sm_120")
    more = max(1, sums // number["lanes_per_row"]) - 1
    fp8, fp32 = row["precision"] == "fp8", row["precision"] == "fp32"
    found = {
        "one": 1, "loads_of_many_planes": loads * (planes > 2), "two_planes": planes == 2, "many_planes": planes > 2,
        "several_planes": planes > 1, "gated": gated, "lstm": row["cell"] == "lstm", "gru": row["cell"] == "gru",
        "tail": tail, "ring": ring, "few_words": few, "few_words_and_tail": few and tail,
        "shifted_index": (units + zeros) * plane_unit > 65536,
        "many_rounds": loads > 4 and rounds_of > 3 * loads, "tall_tile": height > 1 and not gated, "fp8": fp8,
        "fp32": fp32, "bf16": row["precision"] == "bf16", "together_half": together and not fp32,
        "together_dense": together and dense, "together_tail": together and tail,
        "chunk_words": tail * (number["chunks_in_flight"] - 1) * chunk_words, "gated_tail": gated and tail,
        "gated_ring": gated and ring, "gated_fp8": gated and fp8, "more_outputs": more,
        "gated_more_outputs": gated * more, "many_tiles": tiles > 2, "sm_80": sm_80, "sm_80_few_words": sm_80 and few,
        "sm_80_gated": sm_80 and gated, "sm_80_together": sm_80 and together, "sm_80_more_outputs": sm_80 * more,
        "sm_100": sm_100, "sm_100_gated": sm_100 and gated, "sm_100_tail": sm_100 and tail,
        "sm_100_ring": sm_100 and ring, "sm_100_more_loads": sm_100 * max(0, loads - 3),
    }
    return found, {"staging": 4 * loads, "gather": sums, "finish": sums}, planes


def needed(row, which):
    """Registers beside the weights; `which`: of the most words up to which nothing spills, or of the most words."""
    return int(row["registers"]) - int(row[which])


class Data:
    """Equal rows of all phases are one: needed at least `low`, at most `high`."""

    def __init__(self, rows):
        groups = {}
        for row in rows:
            values, fixed, _ = facts(row)
            key = tuple((float(fixed[phase]),) + tuple(float(values[name]) for name in names)
                        for phase, names in FACTS.items())
            groups.setdefault(key, []).append(row)
        self.groups = list(groups.values())
        self.fixed = [np.array([key[p][0] for key in groups]) for p in range(len(FACTS))]
        self.matrix = [np.array([key[p][1:] for key in groups]) for p in range(len(FACTS))]
        self.low = np.array([max(needed(r, "safe") for r in group) for group in self.groups], float)
        self.high = np.array([min(needed(r, "largest") for r in group) for group in self.groups], float)
        self.weight = np.sqrt([len(group) for group in self.groups])

    def phases(self, tables):
        return [f + m @ t for f, m, t in zip(self.fixed, self.matrix, tables)]


def cost(data, phases):
    predicted = np.maximum.reduce(phases)
    under, over = predicted - data.low, predicted - data.high
    return np.sum(np.where(under < 0, 7 - 0.5 * under, 0.25 * np.maximum(0, 1.5 - under)) +
                  data.weight * np.where(over > ALLOWED, 1 + 0.1 * (over - ALLOWED), 0.1 * np.maximum(0, over - 6)))


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
        limits.append(data.high + ALLOWED - 3 - data.fixed[p])
        mine = np.flatnonzero(binding == p)
        enough[mine, ends[p] - sizes_[p]:ends[p]] = -matrix[mine]
    rows.append(sparse.hstack([enough, sparse.csr_matrix((count, terms)), none, -eye]))
    limits.append(np.choose(binding, data.fixed) - data.low - 2)
    for sign in (1, -1):
        rows.append(sparse.hstack([sign * sparse.identity(terms), -sparse.identity(terms),
                                   sparse.csr_matrix((terms, 2 * count))]))
        limits.append(np.zeros(terms))
    names = [t for terms_ in FACTS.values() for t in terms_]
    price = np.concatenate([np.zeros(terms), [0 if n == "one" else 0.05 for n in names], data.weight, np.full(count, 2.5)])
    bounds = [RANGE.get(n, OTHERS) for n in names] + [(0, None)] * (terms + 2 * count)
    solved = linprog(price, A_ub=sparse.vstack(rows).tocsr(), b_ub=np.concatenate(limits), bounds=bounds, method="highs")
    return solved.fun, np.split(solved.x[:terms], ends[:-1])


def fit(data, seconds, seed):
    randoms = np.random.default_rng(seed)
    tables = [np.array([12.0] + [0.0] * (len(t) - 1)) for t in FACTS.values()]
    best = None
    until = time.monotonic() + seconds / 3
    while best is None or time.monotonic() < until:
        phases = np.array(data.phases(best[1] if best and randoms.random() < 0.3 else tables))
        noise = 4 * randoms.normal(size=phases.shape) * (randoms.random() < 0.4)
        value, tables = linear_program(data, np.argmax(phases + noise, axis=0))
        if best is None or value < best[0]:
            best = value, tables
    starts = [[np.round(t) for t in best[1]], shipped()]
    return anneal(data, min(starts, key=lambda tables: cost(data, data.phases(tables))), 2 * seconds / 3, seed)


def anneal(data, tables, seconds, seed):
    rng = random.Random(seed)
    places = [(p, i) for p, terms in enumerate(FACTS.values()) for i in range(len(terms))]
    names = list(FACTS.values())

    def price(tables, phases):
        return cost(data, phases) + sum(0.15 * min(abs(v), 3) for t in tables for v in t[1:])

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
    for phase, names in FACTS.items():
        body = re.search(r"k%s\[\]\{(.*?)\};" % phase.capitalize(), text, re.S)
        values = dict(re.findall(r"&Facts::(\w+), (-?\d+)", body.group(1))) if body else {}
        tables.append(np.array([float(values.get(name, 0)) for name in names]))
    return tables


def report(data, tables):
    text = (pathlib.Path(__file__).parent / "registers.cpp").read_text()
    predicted = np.maximum.reduce(data.phases(tables)) + int(re.search(r"kMargin = (\d+)", text).group(1))
    counts, missed = {}, []
    for group, registers in zip(data.groups, predicted):
        for row in group:
            spare, more = int(registers) - needed(row, "safe"), int(registers) - needed(row, "largest")
            count = counts.setdefault(row["architecture"], [0, 0, 0])
            count[0], count[1], count[2] = count[0] + 1, count[1] + (spare >= 0 and more <= ALLOWED), count[2] + (spare < 0)
            if spare < 0 or more > ALLOWED:
                missed.append((min(spare, more) if spare < 0 else more, " ".join(list(row.values())[:17])))
    for more, plan in sorted(missed):
        print(f"  {more:4d}  {plan}")
    for architecture, (pairs, within, spills) in sorted(counts.items()):
        print(f"{architecture}: {within} of {pairs} within {ALLOWED}; {spills} would spill, "
              f"{pairs - within - spills} are too careful")


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
    rows = [row for row in rows if row["pass_planes"] == "1" or facts(row)[2] == 2]
    data = Data(rows)
    tables = shipped() if options.check else fit(data, options.seconds, options.seed)[1]
    for (phase, names), table in zip(FACTS.items(), tables):
        listed = ", ".join(f"{{&Facts::{name}, {int(v)}}}" for name, v in zip(names, table) if v)
        print(f"constexpr Term k{phase.capitalize()}[]{{{listed}}};")
    report(data, tables)


if __name__ == "__main__":
    main()
