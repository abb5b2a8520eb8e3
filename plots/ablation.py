# SPDX-License-Identifier: Apache-2.0
"""What each optimisation gives: step times with the switches of the sparse persistent kernel turned on one after another.
Reads measured rows (ablation.csv of experiments/recipes/record.sh)."""
from style import BLUE, GREY, INK, LIGHT, describe, fail, number, parser, plan_number, plt, read_csv, save, write_dump

# Exchange, bytes of a load, order of rows: each bar has one more switch on than the one above it.
STAIRS = [("cooperative_barrier", 2, "natural", "grid barrier, a sample at a time, natural order"),
          ("atomic_barrier", 2, "natural", "+ barrier of one counter"),
          ("lamport", 2, "natural", "+ Lamport exchange"),
          ("lamport", 16, "natural", "+ wide loads"),
          ("lamport", 16, "bank_aware", "+ bank-aware order")]
COLUMNS = ["cell", "hidden", "batch", "density", "precision", "mask", "plan", "step_us", "gather_wavefronts"]


def switches(plan):
    words = plan.split()
    return words[3], plan_number(plan, "load_bytes"), words[2]


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    points = {}  # configuration -> switches -> (time, wavefronts)
    for row in read_csv(options.data, COLUMNS):
        if row["step_us"]:
            points.setdefault(describe(row), {})[switches(row["plan"])] = (
                number(row, "step_us"), number(row, "gather_wavefronts"))
    if not points:
        fail(f"{options.data}: no rows with a step time")

    bars = len(STAIRS)
    height = 0.9 + len(points) * (0.25 * bars + 0.45)
    figure, all_axes = plt.subplots(len(points), 1, figsize=(7.2, height), sharex=True, squeeze=False)
    longest = max(us for measured in points.values() for us, _ in measured.values())
    drawn = []
    for axes, (name, measured) in zip(all_axes[:, 0], points.items()):
        for y, (*key, label) in enumerate(STAIRS):
            if tuple(key) not in measured:
                fail(f"{options.data}: {name} was not measured with {' '.join(map(str, key))}")
            us, wavefronts = measured[tuple(key)]
            axes.barh(y, us, height=0.72, color=BLUE if y == bars - 1 else LIGHT)
            axes.text(us + 0.01 * longest, y, f"{us:.2f}", va="center", fontsize=8, color=INK)
            axes.text(1.09, y, f"{wavefronts:.0f}", va="center", ha="right", fontsize=8, color=GREY,
                      transform=axes.get_yaxis_transform())
            drawn.append([name, label, us, wavefronts])
        axes.set_yticks(range(bars), [label for *_, label in STAIRS], fontsize=8)
        axes.set(ylim=(bars - 0.4, -0.6), xlim=(0, 1.12 * longest))
        axes.set_title(name, fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(True, axis="x")
    all_axes[-1, 0].set_xlabel("µs per step")
    figure.subplots_adjust(left=0.41, right=0.9, top=1 - 0.62 / height, bottom=0.5 / height, hspace=0.45)
    figure.text(0.02, 1 - 0.28 / height, "What each optimisation gives, measured", fontsize=11, weight="bold")
    figure.text(0.99, 1 - 0.28 / height, "right: wavefronts of an SM's gathers", ha="right", fontsize=8, color=GREY)
    save(figure, options.output)
    write_dump(options.dump, ["configuration", "switches", "us", "wavefronts"], drawn)


if __name__ == "__main__":
    main()
