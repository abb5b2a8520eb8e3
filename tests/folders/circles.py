#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circles between folders: those whose files include each other's, directly or by way of others, at any depth.

Inside each folder, its subfolders are one part each, and the files that lie in it directly are one more, named as the
folder with "/.". Parts that reach each other over #include lines are a circle. KNOWN has those that are still there: one
that is not listed fails, and so does one that is listed, but is gone.

Finds files that choose, too: plans are chosen by the model, and by kernels/api/, which asks it. Other files of kernels/
and sim/ include no header of SEARCHES, neither directly nor by way of others.

  circles.py [--includes] [ROOT]
"""

import collections
import pathlib
import re
import sys

TOPS = ["model", "sim", "kernels", "experiments"]
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
KNOWN = []
SEARCHES = re.compile(
    r"model/(answer/.*|families/planner\.hpp|training/planner\.hpp|plan/search\.hpp|feed_forward/plan/search\.hpp"
    r"|sparse/search/.*|dense/candidates.*|[a-z]+/family\.hpp)"
)
CHOOSES_NOTHING = re.compile(r"(kernels/(?!api/)|sim/).*")


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


def choosing(included_by):
    """The way from each file that is to choose nothing to a search that it includes, if it does."""
    for file in sorted(filter(CHOOSES_NOTHING.fullmatch, included_by)):
        ways = collections.deque([[file]])
        seen = {file}
        while ways:
            way = ways.popleft()
            if SEARCHES.fullmatch(way[-1]):
                yield " includes ".join(way)
                break
            for included in included_by.get(way[-1], ()):
                if included not in seen:
                    seen.add(included)
                    ways.append([*way, included])


def main(arguments):
    show = "--includes" in arguments
    rest = [argument for argument in arguments if argument != "--includes"]
    root = pathlib.Path(rest[0] if rest else pathlib.Path(__file__).parents[2]).resolve()
    edges, lines, included_by = (collections.defaultdict(of) for of in (set, list, list))
    for file, included in includes(root):
        included_by[file].append(included)
        if between := parts(file, included):
            edges[between[0]].add(between[1])
            lines[tuple(between)].append(f"    {file} includes {included}")
    if not edges:
        return f"no #include of a file under {root}"
    found = circles(edges)
    problems = [f"folders include each other: {circle}" for circle in found if circle not in KNOWN]
    problems += [f"a plan is chosen outside of the model: {way}" for way in choosing(included_by)]
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
