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

from style import GREEN, INK, ORANGE, PURPLE, VERMILION, describe, fail, number, parser, plan_number, plt
from style import read_csv, save, write_dump

COLUMNS = ["cell", "hidden", "batch", "density", "precision", "mask", "plan", "step_us", "exchange_us", "floor_us",
           "gather_wavefronts"]
REASONS = {"padding, banks": ORANGE, "weights": GREEN, "rest": PURPLE}
LIMIT = 1.25
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

    figure, axes = plt.subplots(figsize=(7.2, 4.6))
    bottoms = [1.0] * len(found)
    for reason, color in REASONS.items():
        heights = [max(0.0, parts[reason]) / number(row, "floor_us") for _, row, parts in found]
        axes.bar(range(len(found)), heights, bottom=bottoms, width=1.0, color=color, label=reason)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    axes.plot(range(len(found)), [ratio for ratio, _, _ in found], color=INK, linewidth=1.2, label="measured")
    within = sum(ratio <= LIMIT for ratio, _, _ in found)
    axes.axhline(LIMIT, color=VERMILION, linewidth=1, label=f"{LIMIT:g}: {within} of {len(found)} plans are below")
    top = math.ceil(2 * found[-1][0]) / 2
    axes.set_xticks(range(0, len(found), max(1, len(found) // 60 * 10)))
    bottom = math.floor(2 * min(1, found[0][0])) / 2  # where both overlap, steps are shorter
    axes.set_yticks([bottom + 0.5 * i for i in range(round(2 * (top - bottom)) + 1)])
    axes.set(xlim=(-0.5, len(found) - 0.5), ylim=(bottom, top),
             xlabel="plans, shortest first", ylabel="step / (exchange, then loads)")
    axes.set_title("A step over its exchange alone and its loads without conflicts")
    axes.grid(True, axis="y")
    axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    save(figure, options.output)

    dump = [[describe(row), ratio, *(parts[reason] for reason in REASONS)] for ratio, row, parts in found]
    write_dump(options.dump, ["configuration", "ratio", *REASONS], dump)
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
