# SPDX-License-Identifier: Apache-2.0
"""What the layout of x, h and gates does to an LSTM's products: the time of each layout relative to that of [T, B, H], by hidden
units, with a band over batches. Reads rows of experiments/recipes/training/layouts.py."""
import math

from style import BLUE, GREY, INK, ORANGE, VERMILION, fail, number, parser, plt, read_csv, save, spread, write_dump

PRODUCTS = {"recurrent_product": "step by step", "input_product": "all steps at once", "weight_product": "gradient of W"}
# The first one is what the others are compared with. Grey tells them apart, too, by marker and line.
LAYOUTS = {"tbh": ("[T, B, H]", GREY, "", "-"), "tbh_wt": ("▲ W transposed", ORANGE, "^", ":"),
           "thb": ("● [T, H, B]", BLUE, "o", "-"), "htb": ("■ [H, T, B]", VERMILION, "s", "--")}  # fmt: skip
TICKS = (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
FEW_TICKS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2)  # of an axis over less than a factor of 2.5


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def read_times(path, precisions):
    """(product, precision) -> hidden -> layout -> of each batch the time relative to the first layout's"""
    first, *others = LAYOUTS
    columns = ["device", "precision", "hidden", "batch", "product", *(f"{layout}_us" for layout in LAYOUTS)]
    rows = read_csv(path, columns)
    found = {}
    for row in rows:
        if row["product"] not in PRODUCTS:
            fail(f"{path}: unknown product '{row['product']}'")
        if row["precision"] in precisions:
            of_size = found.setdefault((row["product"], row["precision"]), {}).setdefault(int(number(row, "hidden")), {})
            for layout in others:
                of_size.setdefault(layout, []).append(number(row, f"{layout}_us") / number(row, f"{first}_us"))
    if not found:
        fail(f"{path}: no rows in {' or '.join(precisions)}")
    return rows[0]["device"], found


def main():
    p = parser(__doc__, data="measured rows")
    p.add_argument("--precisions", default="fp32,fp16", metavar="TYPES", help="beside each other (fp32,fp16)")
    options = p.parse_args()
    precisions = options.precisions.split(",")
    device, found = read_times(options.data, precisions)
    products = [product for product in PRODUCTS if any(key[0] == product for key in found)]
    height = 1.1 + 1.85 * len(products)
    figure, all_axes = plt.subplots(len(products), len(precisions), figsize=(7.2, height), squeeze=False, sharex=True, sharey="row")
    drawn, ends_of = [], {}
    for axes_of_row, product in zip(all_axes, products):
        for axes, precision in zip(axes_of_row, precisions):
            sizes = found.get((product, precision), {})
            axes.axhline(1, color=GREY, linewidth=1)
            axes.set_title(f"{PRODUCTS[product]}, {precision}", fontsize=8.5, weight="normal", color=INK, pad=4)
            axes.set(xscale="log", yscale="log")
            if not sizes:
                continue
            hidden = sorted(sizes)
            ends = {"tbh": 1.0}
            for layout, (_, color, marker, line) in list(LAYOUTS.items())[1:]:
                means = [geometric_mean(sizes[size][layout]) for size in hidden]
                least, most = ([of(sizes[size][layout]) for size in hidden] for of in (min, max))
                axes.fill_between(hidden, least, most, color=color, alpha=0.15, linewidth=0)
                axes.plot(hidden, means, color=color, marker=marker, markersize=4.5, linestyle=line)
                ends[layout] = means[-1]
                drawn += [[product, precision, layout, *of] for of in zip(hidden, means, least, most)]
            ends_of[axes] = ends, hidden
    # Labels and ticks when both panels of a row have said how far they go.
    for axes_of_row in all_axes:
        low, high = axes_of_row[0].get_ylim()
        low, high = min(low, 0.85), max(high, 1.18)
        for axes in axes_of_row:
            axes.set_ylim(low, high)
            axes.minorticks_off()
            ticks = [tick for tick in (FEW_TICKS if high / low < 2.5 else TICKS) if low <= tick <= high]
            axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.grid(True, axis="y")
            if axes not in ends_of:
                continue
            ends, hidden = ends_of[axes]
            axes.set_xlim(hidden[0] / 1.1, hidden[-1] * 1.1)
            axes.set_xticks(hidden, [f"{size}" for size in hidden], fontsize=8)
            gap = math.log(high / low) * 0.105
            places = spread([math.log(end) for end in ends.values()], gap)
            for layout, place in zip(ends, places):
                axes.annotate(LAYOUTS[layout][0], (1.015, math.exp(place)), xycoords=("axes fraction", "data"), va="center",
                              fontsize=8, color=LAYOUTS[layout][1] if layout != "tbh" else INK, annotation_clip=False)  # fmt: skip
    for axes in all_axes[-1]:
        axes.set_xlabel("hidden units")
    figure.suptitle(f"Time relative to [T, B, H], {device}", x=0.02, y=1 - 0.12 / height, ha="left", va="top", fontsize=11, weight="bold")
    figure.text(0.02, 1 - 0.4 / height, "geometric mean over batches, and from the least to the most of them; below 1 is faster",
                fontsize=8.5, va="top", color=INK)  # fmt: skip
    figure.subplots_adjust(left=0.07, right=0.86, top=1 - 0.85 / height, bottom=0.45 / height, wspace=0.44, hspace=0.3)
    save(figure, options.output)
    write_dump(options.dump, ["product", "precision", "layout", "hidden", "mean", "least", "most"], drawn)


if __name__ == "__main__":
    main()
