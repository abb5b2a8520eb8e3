#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circles between folders: those whose files include each other's, directly or by way of others, at any depth.

Inside each folder, its subfolders are one part each, and the files that lie in it directly are one more, named as the
folder with "/.". Parts that reach each other over #include lines are a circle. KNOWN has those that are still there: one
that is not listed fails, and so does one that is listed, but is gone.

  circles.py [--includes] [ROOT]
"""

import collections
import pathlib
import re
import sys

TOPS = ["model", "sim", "kernels", "experiments"]
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
KNOWN = []


def includes(root):
    """Pairs of a file and one that it includes, as paths from the root; of folders of TOPS."""
    for top in TOPS:
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SUFFIXES:
                name = file.relative_to(root).as_posix()
                for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(encoding="utf-8"), re.M):
                    # From the root, or from the file's own folder.
                    for at in (root / included, file.parent / included):
                        if at.is_file() and at.resolve().relative_to(root).parts[0] in TOPS:
                            yield name, at.resolve().relative_to(root).as_posix()
                            break


def parts(file, included):
    """The parts of the innermost folder with both files, or None where they lie in the same one."""
    a, b = file.split("/"), included.split("/")
    depth = 0
    while depth < min(len(a), len(b)) - 1 and a[depth] == b[depth]:
        depth += 1
    of = ["/".join([*path[:depth], path[depth] if depth < len(path) - 1 else "."]) for path in (a, b)]
    return of if of[0] != of[1] else None


def circles(edges):
    """Groups of parts that reach each other, each sorted."""

    def reached(start):
        seen, left = set(), [start]
        while left:
            for part in edges[left.pop()]:
                if part not in seen:
                    seen.add(part)
                    left.append(part)
        return seen

    reach = {part: reached(part) for part in list(edges)}
    found = {tuple(sorted({part} | {o for o in to if part in reach.get(o, ())})) for part, to in reach.items()}
    return sorted(" ".join(circle) for circle in found if len(circle) > 1)


def main(arguments):
    show = "--includes" in arguments
    rest = [argument for argument in arguments if argument != "--includes"]
    root = pathlib.Path(rest[0] if rest else pathlib.Path(__file__).parents[2]).resolve()
    edges, lines = collections.defaultdict(set), collections.defaultdict(list)
    for file, included in includes(root):
        if between := parts(file, included):
            edges[between[0]].add(between[1])
            lines[tuple(between)].append(f"    {file} includes {included}")
    if not edges:
        return f"no #include of a file under {root}"
    found = circles(edges)
    problems = [f"folders include each other: {circle}" for circle in found if circle not in KNOWN]
    problems += [f"no circle any more, to be taken from KNOWN: {circle}" for circle in KNOWN if circle not in found]
    if show or problems:
        for circle in found:
            if show or circle not in KNOWN:
                names = circle.split()
                print(circle)
                for between, of in sorted(lines.items()):
                    if between[0] in names and between[1] in names:
                        print(f"  {between[0]} -> {between[1]}\n" + "\n".join(of))
    return "\n".join(problems)


if __name__ == "__main__":
    if problem := main(sys.argv[1:]):
        sys.exit(problem)
