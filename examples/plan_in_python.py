#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planner from Python, cell by cell as in a notebook: from a question to a front. No GPU is needed.

    PYTHONPATH=python examples/plan_in_python.py
"""
# %% How large an LSTM trains on the chip, with 64 samples, in 24 GiB?
import onchip

largest = onchip.fit("h200", mode="train", cell="lstm", batch=64, memory="24 GiB")
print(largest["network"]["hidden"], "hidden units train on the chip")

# %% What does a sample cost, by size and batch? The last line shows a table in a notebook.
rows = onchip.sweep("h200", {"hidden": [512, 1024, 2048]}, "batch=16,64", mode="train", cell="lstm",
                    column="us_per_sample=step_us/batch", where="fits")  # fmt: skip
front = onchip.pareto("h200", "us_per_sample,hidden:max", rows=rows)
for row in front.table:
    print(row["hidden"], "units,", row["batch"], "samples:", row["us_per_sample"], "us for a step of one")
front  # noqa: B018

# %% Which of the chip's numbers does the time hang on?
for row in onchip.sensitivities("h200", mode="train", cell="lstm", hidden=1024, batch=64)[:3]:
    print(f"10 % more of {row['key']}: {row['d_step_percent']:+.1f} % of the time")

# %% A sparse deep network on one GPU and on two
network = {"network": "spdnn:1024x12", "images": 5000, "alive": 0.25}
for gpus in (1, 2):
    print(gpus, "GPUs:", onchip.predict("h200", **network, gpus=gpus)["ms"], "ms")
