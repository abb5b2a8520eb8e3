#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sweep of a million rows with a given plan takes on one core, as columns and as a pandas frame. Needs pandas (and
pyarrow, where pandas has no from_arrow), and no GPU:
    cd python; taskset -c 0 python3 ../experiments/recipes/sweep_table.py > ../experiments/data/sweep_table.csv"""
import time

import pandas

import onchip

AXES = ("sm.clock=1GHz:1.999GHz:1MHz", "exchange.signal=500:1499:1")
NETWORKS = (
    {"cell": "lstm", "hidden": 1024, "batch": 4, "density": 0.1, "family": "sparse_persistent"},
    {"cell": "relu", "hidden": 2304, "batch": 4, "density": 0.3, "family": "dense_persistent"},
)

print("cell,hidden,batch,density,family,rows,sweep_s,sweep_processor_s,frame_s,frame_processor_s")
for network in NETWORKS:
    plan = onchip.predict("h200", **network)["plan"]["text"]
    fixed = {key: value for key, value in network.items() if key != "family"}
    begun = time.perf_counter(), time.process_time()
    table = onchip.sweep_table("h200", *AXES, plan=plan, progress=False, **fixed)
    swept = time.perf_counter(), time.process_time()
    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(table)
    else:
        import pyarrow

        frame = pyarrow.table(table).to_pandas()
    made = time.perf_counter(), time.process_time()
    assert len(frame) == 1_000_000 and frame["fits"].all()
    times = [end - start for pair in ((begun, swept), (swept, made)) for start, end in zip(*pair)]
    print(",".join([*map(str, network.values()), str(len(frame)), *(f"{seconds:.2f}" for seconds in times)]))
