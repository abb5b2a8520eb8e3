# SPDX-License-Identifier: Apache-2.0
"""How long a step takes over its exchange alone and then its loads, and what lies between them. Reads measured rows
(validation.csv, with the exchange of each plan alone) and the chip's clock; --list writes those above the limit with the
largest reason. Where passes are pipelined both overlap, and a step may take less.

    floor_us          the plan's exchange alone, measured, and its loads of the state without a conflict or a padded slot
    padding, banks    wavefronts of its gathers beyond those
    weights           wavefronts of weights that are read from shared memory, and written there if they are streamed
    rest              reduction, cell, instructions to issue, and waiting for one another"""
import csv
import math

from style import GREEN, GREY, INK, ORANGE, PURPLE, describe, draw_key, fail, number, parser, plan_number, plt, read_csv
from style import save, write_dump

COLUMNS = ["cell", "hidden", "batch", "density", "precision", "mask", "plan", "step_us", "exchange_us", "floor_us",
           "gather_wavefronts"]
REASONS = {"padding, banks": ORANGE, "weights": GREEN, "rest": PURPLE}
LIMIT = 1.25
EDGES = [0, 0.8, 1, 1.1, LIMIT, 1.5, 2, math.inf]
WARP_BYTES = 128  # of a wavefront


def chunk_wavefronts(row):
    """Of one chunk: 4 words a lane of packed 16-bit values, 3 of fp32 and fp8; dense ones: 4, 2 and 1."""
    dense = " dense " in row["plan"]
    words = {"fp16": 2 if dense else 4, "bf16": 2 if dense else 4, "fp32": 4 if dense else 3, "fp8": 1 if dense else 3}
    return words[row["precision"]]


def between(row, cycles_per_us):
    """What lies between the floor and the step, in microseconds."""
    step, floor = number(row, "step_us"), number(row, "floor_us")
    gathers = number(row, "gather_wavefronts") / cycles_per_us
    padding = gathers - (floor - number(row, "exchange_us"))
    plan = row["plan"]
    chunks = plan_number(plan, "overflow_chunks")
    streamed = max(0, chunks - plan_number(plan, "shared_chunks")) if plan_number(plan, "ring_chunks") else 0
    element = 4 if row["precision"] == "fp32" else 2
    unit = (1 << (int(number(row, "batch")) - 1).bit_length()) * element  # of the batch padded to a power of two
    planes = unit // min(plan_number(plan, "load_bytes"), unit)
    passes = planes // plan_number(plan, "pass_planes")
    weights = passes * (chunks + streamed) * chunk_wavefronts(row) / cycles_per_us
    return {"padding, banks": padding, "weights": weights, "rest": step - floor - padding - weights}


def main():
    arguments = parser(__doc__.split("\n", maxsplit=1)[0], data="measured rows")
    arguments.add_argument("--clock", required=True, type=float, metavar="HZ", help="of the SMs")
    arguments.add_argument("--list", metavar="CSV", help="also write the plans above the limit, each with its reason")
    options = arguments.parse_args()
    rows = [row for row in read_csv(options.data, COLUMNS) if row["step_us"] and row["floor_us"]]
    if not rows:
        fail(f"{options.data}: no row has a step time and a floor")

    found = []  # (ratio, row, what lies between)
    for row in rows:
        found.append((number(row, "step_us") / number(row, "floor_us"), row, between(row, options.clock / 1e6)))
    found.sort(key=lambda item: item[0])

    # Plans by their ratio, and of each group the means. Parts below 0 are time saved by overlap.
    within = sum(ratio <= LIMIT for ratio, _, _ in found)
    groups = []  # [name, plans, mean ratio, mean of each part over the floor]
    for low, high in zip(EDGES, EDGES[1:]):
        of_group = [(ratio, {reason: us / number(row, "floor_us") for reason, us in parts.items()})
                    for ratio, row, parts in found if low < ratio <= high]
        if of_group:
            mean = lambda values: sum(values) / len(of_group)  # noqa: E731
            groups.append([f"{low:g} to {high:g}" if 0 < low and high < math.inf else
                           f"over {low:g}" if 0 < low else f"up to {high:g}", len(of_group),
                           mean([ratio for ratio, _ in of_group]),
                           *(mean([parts[reason] for _, parts in of_group]) for reason in REASONS)])
    height = 1.5 + 0.42 * len(groups)
    figure = plt.figure(figsize=(7.2, height))
    axes = figure.add_axes((0.13, 0.6 / height, 0.68, 1 - 1.45 / height))
    for y, (name, plans, ratio, *parts) in enumerate(groups):
        ends = {True: 1.0, False: 1.0}  # to the right and to the left
        for (reason, color), part in zip(REASONS.items(), parts):
            axes.barh(y, part, left=ends[part > 0], height=0.6, color=color, alpha=1 if part > 0 else 0.45, linewidth=0)
            ends[part > 0] += part
        axes.plot([ratio, ratio], [y - 0.4, y + 0.4], color=INK, linewidth=2, solid_capstyle="butt")
        axes.text(1.02, y, f"{plans}", transform=axes.get_yaxis_transform(), va="center", weight="bold")
        axes.text(1.11, y, f"{ratio:.2f}", transform=axes.get_yaxis_transform(), va="center")
    axes.text(-0.02, -0.62, "ratio", transform=axes.get_yaxis_transform(), va="bottom", ha="right", fontsize=8.5)
    axes.text(1.02, -0.62, "plans", transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5)
    axes.text(1.11, -0.62, "mean", transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5)
    axes.axvline(1, color=INK, linewidth=0.9)
    axes.set_yticks(range(len(groups)), [group[0] for group in groups])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(ylim=(len(groups) - 0.45, -0.55), xlabel="step / (exchange, then loads): mean of the plans in a row")
    axes.grid(True, axis="x")
    figure.text(0.02, 1 - 0.28 / height, "A step over its exchange alone and its loads without conflicts", fontsize=11,
                weight="bold")
    figure.text(0.02, 1 - 0.52 / height, f"{within} of {len(found)} plans take at most {LIMIT:g} times that; "
                "black: the mean; pale, to the left: less, as both overlap", fontsize=8.5, color=GREY)
    draw_key(figure, REASONS, 1.2, height - 0.73)
    save(figure, options.output)

    write_dump(options.dump, ["ratio", "plans", "mean", *REASONS], groups)
    if options.list:
        with open(options.list, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["configuration", "step_us", "floor_us", "ratio", "reason", "its_us", "plan"])
            for ratio, row, parts in reversed(found):
                if ratio > LIMIT:
                    reason = max(REASONS, key=lambda name: parts[name])
                    writer.writerow([describe(row), row["step_us"], row["floor_us"], f"{ratio:.3f}", reason,
                                     f"{parts[reason]:.3f}", row["plan"]])


if __name__ == "__main__":
    main()
