# SPDX-License-Identifier: Apache-2.0
"""What `onchip tune` may gain: of each layer, how much slower than the fastest of what was timed the model's first plan and its
choice among plans and cuDNN are (regret), and how many times as long cuDNN takes. Reads rows of `onchip tune --configurations`."""
import math

from style import BLUE, GREY, INK, VERMILION, draw_key, fail, note, number, parser, plt, read_csv, save, write_dump

DOUBT = 0.08  # kLibraryDoubt of model/answer/training/training.hpp
SHAPE = ["cell", "hidden", "batch", "steps", "precision", "input"]
MOST_NAMES = 60  # of layers, above which there is no room for them


def read_layers(path):
    """Of each layer with plans of its own: its name, the regret of the first plan, that of the choice, and cuDNN's time over the
    fastest's. The last two are nan where cuDNN was not timed."""
    shapes = {}
    for row in read_csv(path, SHAPE + ["rank", "us", "predicted_us"]):
        if row["us"]:
            shapes.setdefault(tuple(row[name] for name in SHAPE), []).append(row)
    layers = []
    for (cell, hidden, batch, _, precision, _), rows in shapes.items():
        plans = [row for row in rows if row["rank"].isdigit()]
        library = [row for row in rows if row["rank"].startswith("cudnn")]
        if not plans:
            continue
        us = [number(row, "us") for row in plans]
        choice = ratio = math.nan
        if library:
            library_us = number(library[0], "us")
            takes_plan = number(plans[0], "predicted_us") <= (1 - DOUBT) * number(library[0], "predicted_us")
            choice = (us[0] if takes_plan else library_us) / min(*us, library_us) - 1
            ratio = library_us / min(*us, library_us)
        layers.append([f"{cell.upper()} {hidden}, {batch}, {precision}", us[0] / min(us) - 1, choice, ratio])
    if not layers:
        fail(f"{path}: no layer with times of its plans")
    if len(layers) < len(shapes):
        note(f"{len(shapes) - len(layers)} of {len(shapes)} layers are not drawn: none of their plans was timed")
    return sorted(layers, key=lambda layer: (max(layer[1], 0 if math.isnan(layer[2]) else layer[2]), layer[0]))


def main():
    options = parser(__doc__, data="rows of onchip tune").parse_args()
    layers = read_layers(options.data)
    has_names = len(layers) <= MOST_NAMES
    height = 1.6 + (0.155 * len(layers) if has_names else 5.5)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, height), sharey=True, gridspec_kw={"width_ratios": (1.25, 1)})
    at = range(len(layers))
    first, choice, ratio = ([layer[i] for layer in layers] for i in (1, 2, 3))
    left.plot([100 * regret for regret in choice], at, marker="D", markersize=6, markerfacecolor="none", color=VERMILION,
              linestyle="none", clip_on=False)
    left.plot([100 * regret for regret in first], at, marker="o", markersize=3.5, color=BLUE, linestyle="none", clip_on=False)
    most = 100 * max(max(first), max((regret for regret in choice if not math.isnan(regret)), default=0))
    left.set_xscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))  # small ones are many
    left.set_xlim(0, max(1.1 * most, 1))
    ticks = [tick for tick in (0, 1, 2, 5, 10, 20, 30, 50, 100, 200) if tick <= 1.1 * most]
    left.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    left.set_xlabel("% slower than the fastest timed")
    right.axvline(1, color=GREY, linewidth=1)
    right.plot(ratio, at, marker="s", markersize=3.5, color=INK, linestyle="none", clip_on=False)
    right.set_xscale("log", base=2)
    top = max([2, *(of for of in ratio if not math.isnan(of))]) * 1.15
    right.set_xlim(0.9, top)
    ticks = [2**i for i in range(12) if 2**i <= top]
    right.set_xticks(ticks, [f"{tick}" for tick in ticks])
    right.minorticks_off()
    right.set_xlabel("cuDNN: its time over the fastest's")
    left.set(ylim=(-0.8, len(layers) - 0.2))
    left.set_yticks(at if has_names else [], [layer[0] for layer in layers] if has_names else [], fontsize=7)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0, pad=8)
        axes.grid(True)
    text = (f"hidden units, batch and type; its first plan is {100 * sum(first) / len(first):.1f} % slower than the fastest of three on average, "
            f"{100 * max(first):.1f} % at most")
    figure.text(0.1 / 7.2, 1 - 0.28 / height, f"Regret: the model against the fastest of what was timed, {len(layers)} layers", fontsize=11, weight="bold")
    figure.text(0.1 / 7.2, 1 - 0.52 / height, text, fontsize=8.5, color=INK)
    draw_key(figure, {"dots: its first plan, among its first three": BLUE, "diamonds: its choice, cuDNN among them": VERMILION}, 0.12, height - 0.72)
    figure.subplots_adjust(left=(1.55 if has_names else 0.3) / 7.2, right=0.98, top=1 - 0.9 / height, bottom=0.5 / height, wspace=0.08)
    save(figure, options.output)
    write_dump(options.dump, ["layer", "first_plan_regret", "choice_regret", "cudnn_ratio"], layers)


if __name__ == "__main__":
    main()
