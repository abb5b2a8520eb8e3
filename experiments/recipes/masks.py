#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where weights stand in matrices, without their values, in one file: half as long as compressed Matrix Market files.

    experiments/recipes/masks.py pack FILE.masks.xz FILE.mtx...     the other way:
    experiments/recipes/masks.py unpack FILE.masks.xz FOLDER        NAME.mtx for each, as patterns: every weight is then 1
    experiments/recipes/masks.py unpack FILE.masks.xz FOLDER --values    with values with which a recurrence stays bounded

FILE.masks.xz holds for each matrix a line "NAME ROWS COLUMNS" and ROWS * ceil(COLUMNS / 8) bytes, a bit an element,
the first column in the highest bit of the first byte.
"""
import argparse
import lzma
import math
import pathlib
import random
import sys

BITS = [[bit for bit in range(8) if byte & 0x80 >> bit] for byte in range(256)]


def pack(archive, files):
    packed = bytearray()
    for file in files:
        with file.open() as lines:
            data = (line.split() for line in lines if not line.startswith("%"))
            rows, columns, _ = map(int, next(data))
            stride = (columns + 7) // 8
            bits = bytearray(rows * stride)
            for row, column, *_ in data:
                bit = int(column) - 1
                bits[(int(row) - 1) * stride + bit // 8] |= 0x80 >> bit % 8
        packed += f"{file.stem} {rows} {columns}\n".encode() + bits
    archive.write_bytes(lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME))


def unpack(archive, folder, with_values):
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(archive) as packed:
        while header := packed.readline():
            name, rows, columns = header.decode().split()
            rows, columns = int(rows), int(columns)
            stride = (columns + 7) // 8
            entries = []
            for row in range(1, rows + 1):
                bits = packed.read(stride)
                if len(bits) < stride:
                    raise EOFError(f"{name} ends in row {row} of {rows}")
                entries += [f"{row} {8 * i + bit + 1}\n" for i, byte in enumerate(bits) if byte for bit in BITS[byte]]
            if with_values:
                draws = random.Random(name)
                scale = math.sqrt(rows / max(1, len(entries)))  # of a row's mean length
                signs = (1, -1)
                entries = [f"{entry[:-1]} {draws.choice(signs) * draws.uniform(scale / 4, scale):.5f}\n" for entry in entries]
            part = folder / f"{name}.mtx.part"
            with part.open("w") as out:
                field = "real" if with_values else "pattern"
                out.write(f"%%MatrixMarket matrix coordinate {field} general\n{rows} {columns} {len(entries)}\n")
                out.writelines(entries)
            part.replace(folder / f"{name}.mtx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what, many in (("pack", "files", "+"), ("unpack", "folder", None)):
        arguments = verbs.add_parser(verb)
        arguments.add_argument("archive", type=pathlib.Path)
        arguments.add_argument(what, type=pathlib.Path, nargs=many)
        if verb == "unpack":
            arguments.add_argument("--values", action="store_true")
    options = parser.parse_args()
    try:
        if options.verb == "pack":
            pack(options.archive, options.files)
        else:
            unpack(options.archive, options.folder, options.values)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        sys.exit(f"masks.py: {options.archive}: {error}")


if __name__ == "__main__":
    main()
