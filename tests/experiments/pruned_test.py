# SPDX-License-Identifier: Apache-2.0
"""What `validate` says of uneven masks: pruned.csv, the measured networks of pruned weights, whose masks are shipped packed,
and the rows of a power law in validation.csv.

python3 tests/experiments/pruned_test.py ONCHIP, the built command"""
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

EXPERIMENTS = pathlib.Path(__file__).resolve().parents[2] / "experiments"
SHIPPED = EXPERIMENTS / "data" / "h200"
ONCHIP = sys.argv.pop(1)


def masks(*arguments):
    return subprocess.run([sys.executable, EXPERIMENTS / "recipes" / "masks.py", *arguments], capture_output=True, text=True,
                          check=False)


class InFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)


class PackedMasks(InFolder):
    def test_masks_come_back_as_they_were_packed(self):
        entries = {"wide": (3, 19, [(1, 1), (1, 8), (1, 9), (1, 19), (3, 16), (3, 17)]), "empty": (2, 5, []),
                   "full": (2, 8, [(row, column) for row in (1, 2) for column in range(1, 9)])}
        for name, (rows, columns, places) in entries.items():
            text = f"%%MatrixMarket matrix coordinate real general\n% {name}\n{rows} {columns} {len(places)}\n"
            text += "".join(f"{row} {column} -0.5\n" for row, column in places)
            (self.folder / f"{name}.mtx").write_text(text)
        archive = self.folder / "all.masks.xz"
        done = masks("pack", archive, *(self.folder / f"{name}.mtx" for name in entries))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = masks("unpack", archive, self.folder / "back")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name, (rows, columns, places) in entries.items():
            header, size, *lines = (self.folder / "back" / f"{name}.mtx").read_text().splitlines()
            self.assertEqual(header, "%%MatrixMarket matrix coordinate pattern general")
            self.assertEqual(size, f"{rows} {columns} {len(places)}")
            self.assertEqual([tuple(map(int, line.split())) for line in lines], places)

    def test_a_damaged_file_is_one_clear_error(self):
        archive = self.folder / "damaged.masks.xz"
        archive.write_bytes((SHIPPED / "pruned.masks.xz").read_bytes()[:1000])
        done = masks("unpack", archive, self.folder / "damaged")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Amasks.py: .*damaged.masks.xz: .*\n\Z")
        self.assertEqual(list((self.folder / "damaged").iterdir()), [])


class PrunedNetworks(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.folder / "h200" / "pruned.csv"  # the folder names the chip
        done = masks("unpack", SHIPPED / "pruned.masks.xz", cls.folder / "h200" / "pruned")
        assert done.returncode == 0, done.stderr
        for name in ("pruned.csv", "pruned.manifest.json"):
            shutil.copy(SHIPPED / name, cls.folder / "h200")
        cls.power_law = cls.folder / "h200" / "power_law.csv"
        header, *rows = (SHIPPED / "validation.csv").read_text().splitlines(keepends=True)
        cls.power_law.write_text(header + "".join(row for row in rows if ",power-law," in row))
        shutil.copy(SHIPPED / "validation.manifest.json", cls.folder / "h200" / "power_law.manifest.json")

    def validate(self, file, *options):
        done = subprocess.run([ONCHIP, "validate", file, *options, "--format", "json"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_mask_is_the_one_that_was_measured(self):
        with self.file.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["mask"] == "file"]
        self.assertEqual(len(rows), 10)
        for row in rows:
            with (self.file.parent / row["weights"]).open() as file:
                next(file)
                size = next(file).split()
            self.assertEqual(size[1:], [row["hidden"], row["nnz"]])

    def test_the_model_and_the_simulator_are_within_7_percent_of_uneven_masks(self):
        for engine, options in (("model", []), ("simulator", ["--simulate"])):
            pruned, power_law = self.validate(self.file, *options), self.validate(self.power_law, *options)
            self.assertEqual((pruned["points"], pruned["failed"]), (20, []))
            self.assertEqual((power_law["points"], power_law["failed"]), (10, []))
            rows = [row for row in pruned["rows"] if row["configuration"]["mask"] == "file"]
            self.assertEqual(len(rows), 10)
            uneven = [abs(row["error_percent"]) for row in rows + power_law["rows"]]
            self.assertLessEqual(sum(uneven) / len(uneven), 7, engine)


if __name__ == "__main__":
    unittest.main()
