# SPDX-License-Identifier: Apache-2.0
"""experiments/recipes/prune.py as `record.sh` runs it, on networks that train in a second. Exit status 77: there is no PyTorch."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "experiments" / "recipes" / "prune.py"


class Prune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "weights.mtx"

    def prune(self, *arguments, text=__file__):
        return subprocess.run([sys.executable, SCRIPT, *map(str, arguments[:3]), self.file, text, *arguments[3:]],
                              capture_output=True, text=True, check=False)

    def test_as_many_weights_are_left_as_the_density_says_and_all_are_inside_the_matrix(self):
        for cell, gates in (("relu", 1), ("lstm", 4), ("gru", 3)):
            with self.subTest(cell):
                done = self.prune(cell, 13, 0.3, "--steps", "12")
                self.assertEqual(done.returncode, 0, done.stderr)
                header, comment, size, *entries = self.file.read_text().splitlines()
                self.assertEqual(header, "%%MatrixMarket matrix coordinate real general")
                self.assertIn(f"{cell} H=13", comment)
                self.assertEqual(size, f"{gates * 13} 13 {round(0.3 * gates * 13 * 13)}")
                places = [tuple(map(int, entry.split()[:2])) for entry in entries]
                self.assertEqual(places, sorted(set(places)))
                self.assertEqual(len(places), round(0.3 * gates * 13 * 13))
                self.assertTrue(all(1 <= row <= gates * 13 and 1 <= column <= 13 for row, column in places))
                self.assertTrue(all(0 < abs(float(entry.split()[2])) < 10 for entry in entries))
                self.assertEqual([path.name for path in self.file.parent.iterdir()], [self.file.name])

    def test_a_training_that_diverges_is_one_clear_error_and_writes_nothing(self):
        done = self.prune("relu", 13, 0.3, "--steps", "12", "--learning-rate", "1e20")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"prune.py: relu H=13 diverged by step \d+: .* --learning-rate below 1e\+20\n\Z")
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(list(self.file.parent.iterdir()), [])

    def test_arguments_that_make_no_sense_are_refused(self):
        short = self.file.parent / "short.txt"
        short.write_text("a text of a few bytes")
        for arguments, text, message in (
                (("relu", 13, 1.5), __file__, "at most 1"),
                (("relu", 13, "nan"), __file__, "DENSITY above 0"),
                (("relu", 13, 0.3, "--learning-rate", "0"), __file__, "--learning-rate above 0"),
                (("relu", 13, 0.3), short, "a text of more than"),
                (("relu", 13, 0.3), self.file, str(self.file))):
            with self.subTest(arguments):
                done = self.prune(*arguments, text=text)
                self.assertEqual(done.returncode, 2)
                self.assertIn(message, done.stderr)
                self.assertFalse(self.file.exists())


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch: skipped")
        sys.exit(77)
    unittest.main()
