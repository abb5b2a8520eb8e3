# SPDX-License-Identifier: Apache-2.0
"""How long a request to a stack takes that stays on the chip, by layers and size: the median, and what 99 and 99.9 % of requests
take at most; beside it the empty mailbox of the same run.
Reads rows of onchip measure --stream."""
from style import BLUE, GREY, fail, number, parser, plt, read_csv, save, write_dump

COLUMNS = ["device", "cell", "layers", "hidden", "batch", "streams", "p50_us", "p99_us", "p999_us", "mailbox_p50_us"]


def main():
    options = parser(__doc__, data="measured rows").parse_args()
    rows = [row for row in read_csv(options.data, COLUMNS) if row["p50_us"] and row["batch"] == row["streams"] == "1"]
    if not rows:
        fail(f"{options.data}: no rows of one sample and one stream")
    rows.sort(key=lambda row: (number(row, "p50_us"), row["layers"], row["hidden"]))
    names = [f"{row['cell'].upper()} {row['layers']} x {row['hidden']}" for row in rows]

    figure, axes = plt.subplots(figsize=(7.2, 1.2 + 0.3 * len(rows)))
    for y, row in enumerate(rows):
        p50, p99, p999 = (number(row, name) for name in ("p50_us", "p99_us", "p999_us"))
        axes.plot([p50, p999], [y, y], color=BLUE, linewidth=0.8, alpha=0.5)
        axes.plot(number(row, "mailbox_p50_us"), y, marker="|", markersize=11, color=GREY, linestyle="none")
        axes.plot([p50, p99, p999], [y, y, y], marker="o", markersize=5, color=BLUE, linestyle="none")
        axes.annotate(f"{p50:.2f}", (p50, y), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=7, color=BLUE)
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    right = 1.05 * max(number(row, "p999_us") for row in rows)
    axes.set_xlim(0, right)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= right])
    axes.grid(True, axis="x")
    axes.set_xlabel("µs from the host's input to the host's answer; dots: median, 99 %, 99.9 %; bar: the mailbox alone")
    axes.set_title(f"A request to a stack that stays on the chip, {rows[0]['device']}", loc="left", fontsize=11, weight="bold")
    figure.tight_layout()
    save(figure, options.output)
    write_dump(options.dump, ["network", *COLUMNS[6:]], [[name, *(number(row, of) for of in COLUMNS[6:])] for name, row in zip(names, rows)])


if __name__ == "__main__":
    main()
