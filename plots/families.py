# SPDX-License-Identifier: Apache-2.0
"""Which family of plans is the fastest, measured, and where another was predicted: hidden units against density, for
every cell and batch. Reads rows of `onchip validate` for families.csv of experiments/recipes/record.sh."""
import math

from style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION, YELLOW, draw_key, fail, note, number, parser
from style import percent, plt, read_csv, save, write_dump

# The name in files, in the figure, the colour, and what tells libraries apart in grey, too, where kernels differ in
# brightness.
FAMILIES = {"sparse_persistent": ("sparse persistent", BLUE, None), "dense_persistent": ("dense persistent", ORANGE, None),
            "dense_cluster": ("dense persistent in clusters", YELLOW, None),  # of a plan with that exchange
            "cublas_graph": ("cuBLAS in a graph", GREEN, "/" * 7), "cudnn": ("cuDNN", VERMILION, "." * 7),
            "cusparse_graph": ("cuSPARSE in a graph", PURPLE, "x" * 6)}
CELLS = ["relu", "tanh", "lstm", "gru"]
NETWORK = ["cell", "hidden", "batch", "density", "precision", "mask", "seed"]
COLUMNS = NETWORK + ["plan", "predicted_us", "measured_us"]


def read_networks(path):
    """(cell, batch, hidden, density, precision) -> family -> (predicted, measured), for families that have both."""
    networks = {}
    for row in read_csv(path, COLUMNS):
        family = row["plan"].split(" ")[0]
        if family not in FAMILIES:
            fail(f"{path}: unknown family '{family}'")
        if row["cell"] not in CELLS:
            fail(f"{path}: unknown cell '{row['cell']}'")
        times = number(row, "predicted_us"), number(row, "measured_us")
        if not min(times) > 0:
            fail(f"{path}: found {min(times):g}, expected a time above 0")
        key = (row["cell"], int(number(row, "batch")), int(number(row, "hidden")), number(row, "density"),
               row["precision"])
        in_cluster = family == "dense_persistent" and " cluster " in row["plan"]
        networks.setdefault(key, {})["dense_cluster" if in_cluster else family] = times
    return networks


def winner(times, which):
    return min(times, key=lambda family: (times[family][which], family))


def edges(values, low, high):
    """The limits of the squares around rising values, half way between neighbours, and one beyond each end."""
    middles = [math.sqrt(a * b) for a, b in zip(values, values[1:])]
    return [low, *middles, high]


def draw_panel(axes, points, densities, limits):
    """points: (hidden, density, fastest family, predicted family)"""
    rows = dict(zip(densities, zip(edges(densities, *limits[1]), edges(densities, *limits[1])[1:])))
    for density, (bottom, top) in rows.items():
        of_row = sorted(point for point in points if point[1] == density)
        if not of_row:
            continue
        sizes = [point[0] for point in of_row]
        sides = edges(sizes, sizes[0] / 2**0.5, sizes[-1] * 1.15)
        for left, right, (_, _, fastest, picked) in zip(sides, sides[1:], of_row):
            axes.fill_between([left, right], bottom, top, facecolor=FAMILIES[fastest][1], hatch=FAMILIES[fastest][2],
                              edgecolor="white", linewidth=0)
            axes.plot([right, right], [bottom, top], color="white", linewidth=0.5)
            if picked != fastest:
                axes.plot(math.sqrt(left * right), math.sqrt(bottom * top), marker="o", markersize=6.5,
                          color=FAMILIES[picked][1], markeredgecolor="white", markeredgewidth=1.3, linestyle="none")
        axes.plot([sides[0], sides[-1]], [top, top], color="white", linewidth=0.5)
    axes.set(xscale="log", yscale="log", xlim=limits[0], ylim=limits[1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(plt.NullLocator())
    axes.set_facecolor("#F6F6F6")
    axes.tick_params(labelsize=7, length=2)


def main():
    p = parser(__doc__, data="rows of onchip measure --plan all")
    p.add_argument("--precision", default="fp16", metavar="TYPE", help="the networks that are drawn (fp16)")
    options = p.parse_args()
    everything = read_networks(options.data)
    networks = {key: times for key, times in everything.items() if key[4] == options.precision and len(times) > 1}
    if not networks:
        fail(f"{options.data}: no network in {options.precision} with the times of several families")
    if len(everything) > len(networks):
        note(f"{len(everything) - len(networks)} of {len(everything)} networks are not drawn: of another type than "
             f"{options.precision}, or with one family only")
    cells = [cell for cell in CELLS if any(key[0] == cell for key in networks)]
    batches = sorted({key[1] for key in networks})
    densities = sorted({key[3] for key in networks})
    sizes = sorted({key[2] for key in networks})
    step = 2**0.5
    limits = ((sizes[0] / step / 1.1, sizes[-1] * 1.3), (densities[0] / 2, densities[-1] * 2))

    chosen = {key: (winner(times, 0), winner(times, 1)) for key, times in networks.items()}
    losses = {key: 100 * (networks[key][picked][1] / networks[key][best][1] - 1)
              for key, (picked, best) in chosen.items()}
    best = sum(picked == fastest for picked, fastest in chosen.values())

    # Inches: a column of panels for each batch, a row for each cell.
    panel_width, panel_height, left, top, bottom = min(2.2, 8.6 / len(batches)), 1.35, 0.85, 1.3, 0.5
    width = max(left + len(batches) * panel_width + 0.1, 7.2)
    height = top + len(cells) * panel_height + bottom
    figure = plt.figure(figsize=(width, height))
    for i, cell in enumerate(cells):
        for j, batch in enumerate(batches):
            y = height - top - (i + 1) * panel_height
            axes = figure.add_axes(((left + j * panel_width) / width, y / height, (panel_width - 0.12) / width,
                                    (panel_height - 0.14) / height))
            draw_panel(axes, [(hidden, density, fastest, picked)
                              for (of_cell, of_batch, hidden, density, _), (picked, fastest) in chosen.items()
                              if (of_cell, of_batch) == (cell, batch)], densities, limits)
            ticks = [256 << k for k in range(0, 12, 2) if sizes[0] <= 256 << k <= limits[0][1]]
            axes.set_xticks(ticks, [f"{tick}" for tick in ticks] if i == len(cells) - 1 else [])
            axes.set_yticks(densities, [percent(density) for density in densities] if j == 0 else [])
            if i == 0:
                axes.set_title(f"batch {batch}", fontsize=8, weight="normal", pad=3, color=GREY)
            if j == 0:
                axes.set_ylabel(cell, fontsize=9, weight="bold", labelpad=3)
    figure.text((left + len(batches) * panel_width / 2) / width, 0.13 / height,
                "hidden units, against the density of the weights", ha="center", fontsize=9)
    figure.text(0.1 / width, 1 - 0.28 / height, f"The fastest family, measured, {options.precision}", fontsize=11,
                weight="bold")
    worst = max(losses.values())
    figure.text(0.1 / width, 1 - 0.4 / height,
                f"predicted was the same for {best} of {len(chosen)} networks ({100 * best / len(chosen):.0f} %); "
                f"where not, a dot has\nthe colour of the predicted one, which is at most {worst:.0f} % slower", va="top",
                fontsize=8.5, color=INK)
    drawn = [names for family, names in FAMILIES.items() if any(family in both for both in chosen.values())]
    draw_key(figure, {label: color for label, color, _ in drawn}, 0.1, height - 0.88,
             {label: hatch for label, _, hatch in drawn})
    save(figure, options.output)
    write_dump(options.dump, ["cell", "hidden", "batch", "density", "precision", "picked", "fastest", "loss_percent"],
               [[cell, hidden, batch, density, precision, *chosen[cell, batch, hidden, density, precision],
                 losses[cell, batch, hidden, density, precision]]
                for cell, batch, hidden, density, precision in sorted(chosen)]
               + [["all", "", "", "", f"n={len(chosen)}", "", best, worst]])


if __name__ == "__main__":
    main()
