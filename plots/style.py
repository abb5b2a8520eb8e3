# SPDX-License-Identifier: Apache-2.0
"""What all figures share: size, fonts, palette, reading of CSV files, writing of figures. Equal data give equal bytes."""
import argparse
import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette: told apart by colour-blind readers, and in this order by brightness, too.
BLUE, ORANGE, GREEN, SKY, VERMILION, PURPLE, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#F0E442")
INK, GREY, LIGHT = "#222222", "#777777", "#DDDDDD"

# The look must not depend on the user's matplotlibrc.
matplotlib.rcdefaults()
matplotlib.rcParams.update({
    "figure.figsize": (7.2, 5.0), "figure.dpi": 150, "savefig.dpi": 150,
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 11, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelcolor": INK, "text.color": INK, "axes.edgecolor": GREY,
    "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "grid.color": LIGHT, "grid.linewidth": 0.6, "lines.linewidth": 1.6,
    "svg.hashsalt": "onchip", "svg.fonttype": "path",
})


def parser(description, **data_help):
    """Command line of a figure: one option per file it reads (None: may be left out), -o and --dump."""
    p = argparse.ArgumentParser(description=description)
    for name, text in data_help.items():
        p.add_argument("--" + name, required=name == "data", metavar="CSV", help=text)
    p.add_argument("-o", "--output", required=True, metavar="FILE", action="append",
                   help="figure to write: .svg, .png or .pdf; repeatable")
    p.add_argument("--dump", metavar="CSV", help="also write the numbers that were drawn")
    return p


def fail(message):
    sys.exit(f"{sys.argv[0].rsplit('/', 1)[-1]}: {message}")


def note(message):
    print(f"{sys.argv[0].rsplit('/', 1)[-1]}: {message}", file=sys.stderr)


def read_csv(path, columns):
    """Rows as dictionaries; ends the program with one line if the file is missing, or a column."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or [])]
            if missing:
                fail(f"{path}: no column '{missing[0]}'; expected {', '.join(columns)}")
            rows = []
            for row in reader:
                if None in row or None in row.values():
                    fail(f"{path}:{reader.line_num}: expected {len(reader.fieldnames)} cells")
                rows.append(row)
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or error}")


def number(row, column):
    try:
        return float(row[column])
    except ValueError:
        fail(f"column '{column}': found '{row[column]}', expected a number")


# What a plan's text leaves out is as usual (model/sparse/plan.cpp); only what figures ask for, and is not 0.
USUAL = {"load_bytes": 16, "pass_planes": 1}


def plan_number(plan, key):
    return int(next((word.split("=")[1] for word in plan.split() if word.startswith(key + "=")), USUAL.get(key, 0)))


def varied(rows, columns):
    """Of those columns that the rows have: column -> its values, in the order in which they are first seen."""
    return {column: list(dict.fromkeys(row[column] for row in rows)) for column in columns if column in rows[0]}


def percent(share):
    """0.3 -> '30 %'"""
    return f"{100 * share:.4g} %"


def describe(row):
    """'H=2304 B=4 30 % fp16', with the cell if it is not relu and the mask if it is not uniform."""
    text = f"H={row['hidden']} B={row['batch']} {percent(number(row, 'density'))} {row['precision']}"
    if row["cell"] != "relu":
        text = f"{row['cell']} {text}"
    if row.get("mask", "uniform") != "uniform":
        text += f" {row['mask']}"
    return text


def spread(positions, gap):
    """Moves positions as little as possible, in order, until neighbours are `gap` apart: for labels side by side."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    clusters = []  # [sum of wanted positions less offsets, members]
    for i in order:
        clusters.append(([positions[i]], [i]))
        while len(clusters) > 1:
            (wanted_a, a), (wanted_b, b) = clusters[-2:]
            start = lambda wanted: sum(p - k * gap for k, p in enumerate(wanted)) / len(wanted)  # noqa: E731
            if start(wanted_a) + len(a) * gap <= start(wanted_b):
                break
            clusters[-2:] = [(wanted_a + wanted_b, a + b)]
    moved = [0.0] * len(positions)
    for wanted, members in clusters:
        start = sum(p - k * gap for k, p in enumerate(wanted)) / len(wanted)
        for k, i in enumerate(members):
            moved[i] = start + k * gap
    return moved


def draw_key(figure, colors, x, y, hatches={}):
    """A row of squares with names, from x and y in inches: name -> colour; name -> hatch, of some."""
    width, height = figure.get_size_inches()
    for name, color in colors.items():
        figure.add_artist(plt.Rectangle((x / width, (y - 0.06) / height), 0.12 / width, 0.12 / height, linewidth=0,
                                        transform=figure.transFigure, facecolor=color, edgecolor="white",
                                        hatch=hatches.get(name)))
        text = figure.text((x + 0.16) / width, y / height, name, fontsize=8.5, va="center", color=INK)
        x += 0.3 + text.get_window_extent(figure.canvas.get_renderer()).width / figure.dpi


def write_dump(path, columns, rows):
    if path is None:
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])


def save(figure, paths):
    """Without date and version of the library, which would make equal figures differ."""
    for path in paths:
        metadata = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None},
                    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None}}.get(path[-4:])
        if metadata is None:
            fail(f"{path}: expected a name that ends in .svg, .png or .pdf")
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            fail(f"{path}: {error.strerror}")
    plt.close(figure)
