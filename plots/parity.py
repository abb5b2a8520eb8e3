# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured step time. Reads what `onchip validate --format csv` writes."""
from matplotlib import patheffects

from style import BLUE, GREEN, GREY, LIGHT, ORANGE, VERMILION, describe, fail, number, parser, plt, read_csv, save, write_dump

PRECISIONS = {"fp16": (BLUE, "o"), "bf16": (ORANGE, "^"), "fp32": (VERMILION, "s"), "fp8": (GREEN, "D")}
COLUMNS = ["chip", "cell", "hidden", "batch", "density", "precision", "measured_us", "predicted_us", "low_us",
           "high_us"]
BAND = 10  # percent
LABELLED = 3


def ticks(low, high):
    steps = [m * 10.0**e for e in range(-3, 6) for m in (1, 1.5, 2, 3, 4, 5, 7)]
    return [step for step in steps if low <= step <= high]


def signed(value):
    return f"{value:+.0f}".replace("-", "−")


def main():
    options = parser(__doc__, data="rows of onchip validate").parse_args()
    rows = read_csv(options.data, COLUMNS)
    if not rows:
        fail(f"{options.data}: no rows")
    for row in rows:
        for column in ("measured_us", "predicted_us", "low_us", "high_us"):
            row[column] = number(row, column)
            if not row[column] > 0:
                fail(f"{options.data}: column '{column}': found {row[column]:g}, expected a time above 0")
        if row["precision"] not in PRECISIONS:
            fail(f"{options.data}: unknown precision '{row['precision']}'")
        row["error"] = 100 * (row["predicted_us"] / row["measured_us"] - 1)
    mape = sum(abs(row["error"]) for row in rows) / len(rows)
    within = sum(abs(row["error"]) <= BAND for row in rows)
    # Ties are broken by the name, so that the order of the rows does not matter.
    worst = sorted(rows, key=lambda row: (-abs(row["error"]), describe(row)))[:LABELLED]

    times = [row[column] for row in rows for column in ("measured_us", "predicted_us")]
    low, high = min(times) / 1.12, max(times) * 1.12
    figure = plt.figure(figsize=(7.2, 7.0))
    parity = figure.add_axes((0.09, 0.35, 0.88, 0.585))
    errors = figure.add_axes((0.09, 0.075, 0.88, 0.215), sharex=parity)

    parity.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    parity.fill_between([low, high], [low * (1 - BAND / 100), high * (1 - BAND / 100)],
                        [low * (1 + BAND / 100), high * (1 + BAND / 100)], color=LIGHT, alpha=0.6, linewidth=0)
    parity.plot([low, high], [low, high], color=GREY, linewidth=0.9)
    reach = max(BAND * 1.6, 1.25 * max(abs(row["error"]) for row in rows))
    errors.set_ylim(-reach, reach)
    errors.axhspan(-BAND, BAND, color=LIGHT, alpha=0.6, linewidth=0)
    errors.axhline(0, color=GREY, linewidth=0.9)
    for precision, (color, marker) in PRECISIONS.items():
        drawn = [row for row in rows if row["precision"] == precision]
        look = {"linestyle": "none", "marker": marker, "color": color, "markersize": 4.6, "alpha": 0.75,
                "markeredgewidth": 0}
        measured = [row["measured_us"] for row in drawn]
        parity.vlines(measured, [row["low_us"] for row in drawn], [row["high_us"] for row in drawn], color=color,
                      alpha=0.22, linewidth=1)
        parity.plot(measured, [row["predicted_us"] for row in drawn], **look)
        errors.plot(measured, [row["error"] for row in drawn], **look)

    # The key stands where the identity line never is.
    y = 0.97
    chips = sorted({row["chip"] for row in rows})
    for text in (f"{len(rows)} configurations on {', '.join(chips)}", f"mean absolute percentage error {mape:.1f} %"):
        parity.text(0.02, y, text, transform=parity.transAxes, va="top", weight="bold")
        y -= 0.045
    parity.text(0.02, y, f"{within} of {len(rows)} within ±{BAND} % (grey)", transform=parity.transAxes, va="top")
    y -= 0.06
    for precision, (color, marker) in PRECISIONS.items():
        count = sum(row["precision"] == precision for row in rows)
        if count:
            parity.plot(0.03, y - 0.017, marker=marker, color=color, markersize=5.5, markeredgewidth=0,
                        transform=parity.transAxes, linestyle="none", scalex=False, scaley=False)
            parity.text(0.05, y, f"{precision}, {count}", transform=parity.transAxes, va="top")
            y -= 0.045
    parity.text(0.02, y, "thin lines: 95 % intervals", color=GREY, transform=parity.transAxes, va="top")
    y -= 0.055

    parity.text(0.02, y, "largest errors", transform=parity.transAxes, va="top", weight="bold")
    for i, row in enumerate(worst, 1):
        parity.text(0.02, y - 0.038 * i, f"{i}", transform=parity.transAxes, va="top", weight="bold", fontsize=8)
        parity.text(0.045, y - 0.038 * i, f"{describe(row)}: {signed(row['error'])} %", transform=parity.transAxes,
                    va="top", fontsize=8)
        for axes, height in ((parity, row["predicted_us"]), (errors, row["error"])):
            axes.annotate(f"{i}", (row["measured_us"], height), xytext=(-7, 0), textcoords="offset points", fontsize=8,
                          ha="center", va="center", weight="bold", zorder=6,
                          path_effects=[patheffects.withStroke(linewidth=2.5, foreground="white")])
    for axis in (parity.xaxis, parity.yaxis):
        axis.set_minor_locator(plt.NullLocator())
        axis.set_major_locator(plt.FixedLocator(ticks(low, high)))
        axis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
    parity.tick_params(labelbottom=False)
    parity.set_title("Step time: predicted against measured", pad=10)
    parity.set_ylabel("predicted, µs per step")
    errors.set_ylabel("error, %")
    errors.set_xlabel("measured, µs per step")
    save(figure, options.output)
    columns = ["chip", "cell", "hidden", "batch", "density", "precision"]
    write_dump(options.dump, columns + ["measured_us", "predicted_us", "low_us", "high_us", "error_percent", "label"],
               [[row[column] for column in columns] + [row["measured_us"], row["predicted_us"], row["low_us"],
                row["high_us"], row["error"], int(row in worst)] for row in rows]
               + [["all", "", "", "", "", f"n={len(rows)}", "", "", "", "", mape, ""]])


if __name__ == "__main__":
    main()
