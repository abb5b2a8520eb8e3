# SPDX-License-Identifier: Apache-2.0
"""How fast a language model trains by batch: words a second of whole iterations, in a CUDA graph, with torch.nn.LSTM and with
onchip.LSTM. Reads rows of experiments/recipes/training/language_model.py."""
from style import BLUE, GREY, VERMILION, fail, number, parser, plt, read_csv, save, write_dump

WAYS = {"onchip": ("onchip.LSTM", BLUE), "cudnn": ("torch.nn.LSTM", VERMILION)}
COLUMNS = ["device", "precision", "hidden", "batch", "steps", *(f"{way}_iteration_graph_us" for way in WAYS)]


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    sizes = {}  # by hidden: batch, and words a second of each way
    rows = [row for row in read_csv(options.data, COLUMNS) if row["precision"] == "fp16"]
    for row in rows:
        if all(row[f"{way}_iteration_graph_us"] for way in WAYS):
            words = number(row, "batch") * number(row, "steps")
            rates = [1e6 * words / number(row, f"{way}_iteration_graph_us") for way in WAYS]
            sizes.setdefault(int(row["hidden"]), []).append((int(row["batch"]), *rates))
    sizes = {hidden: sorted(of) for hidden, of in sorted(sizes.items()) if len(of) > 1}
    if not sizes:
        fail(f"{options.data}: no hidden size with two batches in fp16")

    figure, all_axes = plt.subplots(1, len(sizes), figsize=(2.2 * len(sizes) + 0.6, 2.9), squeeze=False)
    for axes, (hidden, of) in zip(all_axes[0], sizes.items()):
        batches, *rates = zip(*of)
        for (name, color), rate in zip(WAYS.values(), rates):
            axes.plot(batches, [each / 1e6 for each in rate], marker="o", markersize=4, color=color)
            if axes is all_axes[0, 0]:
                x, y, side = (0.04, 0.92, "left") if color == BLUE else (0.98, 0.06, "right")
                axes.text(x, y, name, transform=axes.transAxes, ha=side, fontsize=8, color=color)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, batches)
        axes.set_ylim(0, 1.1 * max(map(max, rates)) / 1e6)
        axes.grid(True)
        axes.set_title(f"{hidden} units", fontsize=8, color=GREY)
        axes.set_xlabel(f"samples of {rows[0]['steps']} words")
    all_axes[0, 0].set_ylabel("million words a second")
    figure.suptitle(f"Training a language model, fp16, {rows[0]['device']}", x=0.02, ha="left", fontsize=11, weight="bold")
    figure.subplots_adjust(left=0.6 / figure.get_size_inches()[0], right=0.985, top=0.8, bottom=0.17, wspace=0.3)
    save(figure, options.output)
    write_dump(options.dump, ["hidden", "batch", *WAYS], [[hidden, *point] for hidden, of in sizes.items() for point in of])


if __name__ == "__main__":
    main()
