# SPDX-License-Identifier: Apache-2.0
"""How many times as fast as cuDNN a training step is, by hidden units and batch: onchip's kernels in a CUDA graph against
the fastest of cuDNN's algorithms and paddings, plain or in a graph. Reads rows of experiments/recipes/training/training.sh."""
import math

from style import GREY, INK, LIGHT, fail, number, parser, plt, read_csv, save, write_dump

COLUMNS = ["device", "cell", "precision", "hidden", "batch", "library", "us", "best"]


def read_cells(paths):
    """(cell, precision) -> (hidden, batch) -> (device, us of our kernels, us of the best cuDNN); of several GPUs with the same
    cell the first one's."""
    times = {}
    for row in [row for path in paths for row in read_csv(path, COLUMNS)]:
        library = row["library"].split()[0]
        if library == "onchip" or (library == "cudnn" and row["best"] == "true"):
            key = (row["cell"], row["precision"]), (int(number(row, "hidden")), int(number(row, "batch"))), row["device"]
            if row["us"]:
                times.setdefault(key, {})[library] = number(row, "us")
    panels = {}
    for (panel, size, device), of in times.items():
        if len(of) == 2:
            panels.setdefault(panel, {}).setdefault(size, (device, of["onchip"], of["cudnn"]))
    if not panels:
        fail(f"{paths[0]}: no cell with the times of onchip and of the best cuDNN")
    return panels


def draw_panel(axes, cells, hidden, batches, most, first_device):
    for (size, batch), (device, ours, library) in cells.items():
        at, ratio = (batches.index(batch), hidden.index(size)), library / ours
        shade = 0.12 + 0.75 * max(0.0, math.log(ratio) / math.log(most)) if most > 1 else 0.12
        loses = ratio < 1
        axes.add_patch(plt.Rectangle((at[0] - 0.5, at[1] - 0.5), 1, 1, linewidth=0.8, edgecolor="white",
                                     facecolor=LIGHT if loses else plt.get_cmap("Blues")(shade), hatch="////" if loses else ""))
        axes.text(*at, f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}", ha="center", va="center", fontsize=7.5,
                  style="normal" if device == first_device else "italic", color="white" if shade > 0.6 and not loses else INK,
                  bbox={"facecolor": LIGHT, "edgecolor": "none", "pad": 0.8} if loses else None)
    axes.set(xlim=(-0.5, len(batches) - 0.5), ylim=(-0.5, len(hidden) - 0.5))
    axes.set_xticks(range(len(batches)), [f"{batch}" for batch in batches], fontsize=7.5)
    axes.set_yticks(range(len(hidden)), [f"{size}" for size in hidden], fontsize=7.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def main():
    options = parser(__doc__, data="measured rows", more="those of another GPU, for cells that the first has not").parse_args()
    panels = read_cells([options.data, *([options.more] if options.more else [])])
    everything = [cell for cells in panels.values() for cell in cells.values()]
    devices = list(dict.fromkeys(device for device, _, _ in everything))
    most = max(library / ours for _, ours, library in everything)
    lost = sum(library < ours for _, ours, library in everything)

    # Inches: panels beside each other, with squares of one width.
    axes_of = {panel: ([sorted({size[i] for size in cells}) for i in (0, 1)]) for panel, cells in panels.items()}
    gap, left, bottom, top = 0.55, 0.75, 0.55, 1.15
    square = (7.2 - left - 0.1 - gap * (len(panels) - 1)) / sum(len(batches) for _, batches in axes_of.values())
    row = 0.36
    height = top + row * max(len(hidden) for hidden, _ in axes_of.values()) + bottom
    figure = plt.figure(figsize=(7.2, height))
    x = left
    for i, (panel, cells) in enumerate(panels.items()):
        hidden, batches = axes_of[panel]
        width = square * len(batches)
        axes = figure.add_axes((x / 7.2, bottom / height, width / 7.2, row * len(hidden) / height))
        draw_panel(axes, cells, hidden, batches, most, devices[0])
        axes.set_title(f"{panel[0].upper()}, {panel[1]}", fontsize=8.5, weight="normal", pad=3)
        axes.set_xlabel("batch", fontsize=8.5)
        if i == 0:
            axes.set_ylabel("hidden units", fontsize=8.5)
        x += width + gap
    figure.text(0.1 / 7.2, 1 - 0.28 / height, "How many times as fast as cuDNN a training step is", fontsize=11, weight="bold")
    figure.text(0.1 / 7.2, 1 - 0.52 / height, f"onchip's kernels against the best cuDNN, forward and all gradients; grey and hatched: slower ({lost} of {len(everything)})",
                fontsize=8.5, color=INK)
    figure.text(0.1 / 7.2, 1 - 0.72 / height, devices[0] + "".join(f"; in italics {device}" for device in devices[1:]), fontsize=8.5,
                color=GREY)
    save(figure, options.output)
    write_dump(options.dump, ["cell", "precision", "hidden", "batch", "device", "onchip_us", "cudnn_us", "ratio"],
               [[*panel, *size, device, ours, library, library / ours] for panel, cells in panels.items()
                for size, (device, ours, library) in sorted(cells.items())])


if __name__ == "__main__":
    main()
