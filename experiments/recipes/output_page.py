#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the columns of `onchip measure` mean into docs/output.md, from `onchip measure --columns`.

    experiments/recipes/output_page.py ONCHIP            rewrites that part of the page
    experiments/recipes/output_page.py ONCHIP --check    fails where the page says otherwise
"""
import csv
import io
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "output.md"
BEGIN, END = "<!-- made by experiments/recipes/output_page.py -->\n", "<!-- end of what is made -->\n"


def part(onchip):
    text = subprocess.run([onchip, "measure", "--columns", "--format", "csv"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    lines, rows = [], None
    for column in csv.DictReader(io.StringIO(text)):
        if column["rows"] != rows:
            rows = column["rows"]
            lines += ["", f"### {rows[0].upper()}{rows[1:]}", "", "| column | unit | in | what |", "|---|---|---|---|"]
        where = column["in"]
        if column["in"] != "CSV" and column["json_place"] != column["column"]:
            where += f", there `{column['json_place'].replace('/', '.')}`"
        lines.append(f"| `{column['column']}` | {column['unit']} | {where} | {column['help']} |")
    return "\n".join(lines[1:]) + "\n"


def main():
    onchip, check = sys.argv[1], sys.argv[2:] == ["--check"]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    made = before + BEGIN + "\n" + part(onchip) + "\n" + END + after
    if check and made != page:
        sys.exit(f"{PAGE}: not what `onchip measure --columns` says: run experiments/recipes/output_page.py")
    if not check:
        PAGE.write_text(made)


if __name__ == "__main__":
    main()
