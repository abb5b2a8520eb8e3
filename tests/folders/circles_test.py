#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No circle between folders but the known ones, no choice outside of the model; circles.py finds those that are made."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("circles.py")


def found(root, known=()):
    text = SCRIPT.read_text(encoding="utf-8")
    begin, end = text.index("KNOWN = ["), text.index("]\n", text.index("KNOWN = ["))
    script = pathlib.Path(root, "circles.py")
    script.write_text(text[:begin] + f"KNOWN = {list(known)!r}\n" + text[end + 2 :], encoding="utf-8")
    done = subprocess.run([sys.executable, "-B", script, root], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()


class Circles(unittest.TestCase):
    def make(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, included in files.items():
            file = pathlib.Path(folder.name, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f'#include "{other}"\n' for other in included), encoding="utf-8")
        return folder.name

    def test_folders_that_include_one_way_are_no_circle(self):
        root = self.make({"model/a/x.hpp": [], "model/b/y.cpp": ["model/a/x.hpp"], "sim/z.cpp": ["model/b/y.cpp"]})
        self.assertEqual(found(root), [])

    def test_two_folders_are_a_circle_by_different_files(self):
        files = {"model/a/x.hpp": ["model/b/y.hpp"], "model/b/y.hpp": [], "model/b/z.cpp": ["model/a/x.hpp"]}
        self.assertEqual(found(self.make(files)), ["folders include each other: model/a model/b"])
        self.assertEqual(found(self.make(files), ["model/a model/b"]), [])

    def test_three_folders_are_a_circle_by_way_of_each_other(self):
        files = {"sim/a/x.hpp": ["sim/b/x.hpp"], "sim/b/x.hpp": ["sim/c/d/x.hpp"], "sim/c/d/x.hpp": ["sim/a/x.hpp"]}
        self.assertEqual(found(self.make(files)), ["folders include each other: sim/a sim/b sim/c"])

    def test_a_folder_and_the_one_that_it_lies_in_are_a_circle(self):
        files = {"model/a/x.hpp": ["model/a/b/y.hpp"], "model/a/b/y.hpp": ["../z.hpp"], "model/a/z.hpp": []}
        self.assertEqual(found(self.make(files)), ["folders include each other: model/a/. model/a/b"])

    def test_a_known_circle_that_is_gone_is_a_failure(self):
        root = self.make({"model/a/x.hpp": [], "model/b/y.cpp": ["model/a/x.hpp"]})
        self.assertEqual(found(root, ["model/a model/b"]),
                         ["no circle any more, to be taken from KNOWN: model/a model/b"])

    def test_what_chooses_plans_is_found_by_way_of_others_but_not_in_the_api(self):
        files = {"kernels/a/x.cpp": ["model/a/y.hpp"], "model/a/y.hpp": ["model/plan/search.hpp"],
                 "model/plan/search.hpp": [], "kernels/api/z.cpp": ["model/answer/w.hpp"], "model/answer/w.hpp": []}
        self.assertEqual(found(self.make(files)), ["a plan is chosen outside of the model: kernels/a/x.cpp includes "
                                                   "model/a/y.hpp includes model/plan/search.hpp"])

    def test_the_folders_of_the_repository_have_the_known_circles_and_no_other(self):
        done = subprocess.run([sys.executable, "-B", SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
