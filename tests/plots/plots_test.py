# SPDX-License-Identifier: Apache-2.0
"""The figures draw the numbers of their files: what --dump says is compared with golden files.

plots/python tests/plots/plots_test.py; with ONCHIP_WRITE_GOLDEN=1 it writes the golden files anew."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PLOTS = HERE.parent.parent / "plots"
DATA = HERE / "data"
FIGURES = {
    "parity": ("parity", ["--data", DATA / "parity.csv"]),
    "capacity": ("capacity", ["--data", DATA / "capacity.csv", "--measured", DATA / "capacity_measured.csv"]),
    "capacity_not_measured": ("capacity", ["--data", DATA / "capacity.csv"]),
    "ablation": ("ablation", ["--data", DATA / "ablation.csv"]),
    "poll_delay": ("poll_delay", ["--data", DATA / "poll_delay.csv"]),
    "families": ("families", ["--data", DATA / "families.csv"]),
    "training_memory": ("training_memory", ["--data", DATA / "training_memory.csv"]),
    "training_grid": ("training_grid", ["--data", DATA / "training_grid.csv", "--more", DATA / "training_grid_more.csv"]),
    "training_grid_of_one": ("training_grid", ["--data", DATA / "training_grid.csv"]),
    "regret": ("regret", ["--data", DATA / "regret.csv"]),
    "language_model": ("language_model", ["--data", DATA / "language_model.csv"]),
    "language_curves": ("language_curves", ["--data", DATA / "language_curves.csv"]),
    "translation_memory": ("translation_memory", ["--data", DATA / "translation.csv"]),
    "streams": ("streams", ["--data", DATA / "streams.csv"]),
    "layouts": ("layouts", ["--data", DATA / "layouts.csv"]),
    "tornado": ("tornado", ["--data", DATA / "what_if.json"]),
    "trade_off": ("trade_off", ["--data", DATA / "trade_off.csv"]),
    "trade_off_cheapest": ("trade_off", ["--data", DATA / "trade_off_cheapest.csv"]),
    "floor": ("floor", ["--data", DATA / "floor.csv", "--clock", "1.98e9"]),
    "front": ("front", ["--data", DATA / "sweep.csv"]),
    "front_of_three": ("front", ["--data", DATA / "sweep.csv", "--objectives", "step_us,hidden:max,batch:max"]),
    "fit_map_density": ("fit_map", ["--data", DATA / "sweep.csv"]),
    "fit_map_batch": ("fit_map", ["--data", DATA / "sweep.csv", "--rows", "batch"]),
    "step_parts_of_families": ("step_parts", ["--data", DATA / "families_of_one.csv"]),
    "step_parts": ("step_parts", ["--data", DATA / "step_parts.csv", "--measured", DATA / "validation.csv"]),
    "replication/sweep": ("replication_sweep", ["--data", DATA / "replication.csv"]),
    **{f"replication/{part}": ("replication", ["--data", DATA / "replication.csv", "--figure", f"replication_{part}"])
       for part in ("speedups", "capacity", "steps", "layers")},
}


def draw(script, *arguments):
    return subprocess.run([sys.executable, PLOTS / (script + ".py"), *arguments], capture_output=True, text=True,
                          check=False)


class Figures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_the_numbers_drawn_are_those_of_the_golden_file(self):
        for name, (script, arguments) in FIGURES.items():
            with self.subTest(name):
                dump = self.folder / "dump.csv"
                run = draw(script, *arguments, "-o", self.folder / "figure.svg", "--dump", dump)
                self.assertEqual(run.returncode, 0, run.stderr)
                golden = HERE / "golden" / (name + ".csv")
                if os.environ.get("ONCHIP_WRITE_GOLDEN"):
                    golden.write_bytes(dump.read_bytes())
                self.assertEqual(dump.read_text(), golden.read_text())

    def test_equal_data_give_equal_bytes_whatever_the_environment(self):
        for extension in ("svg", "png"):
            drawn = []
            for i, date in enumerate(("0", "1700000000")):
                (self.folder / f"{i}").mkdir(exist_ok=True)
                (self.folder / f"{i}" / "matplotlibrc").write_text(f"font.size: {20 * i + 5}\n")
                figure = self.folder / f"{i}" / f"figure.{extension}"
                run = subprocess.run([sys.executable, PLOTS / "parity.py", "--data", DATA / "parity.csv", "-o", figure],
                                     env={**os.environ, "SOURCE_DATE_EPOCH": date,
                                          "MATPLOTLIBRC": str(self.folder / f"{i}")}, capture_output=True, text=True,
                                     check=False)
                self.assertEqual(run.returncode, 0, run.stderr)
                drawn.append(figure.read_bytes())
            self.assertEqual(drawn[0], drawn[1])

    def test_nothing_is_drawn_outside_the_figure(self):
        sys.path.insert(0, str(PLOTS))
        import importlib
        import matplotlib.text
        import style
        for script, arguments in FIGURES.values():
            with self.subTest(script):
                seen = []
                module = importlib.import_module(script)
                keep, module.save = module.save, lambda figure, path: seen.append(figure)
                argv, sys.argv = sys.argv, [script, *map(str, arguments), "-o", "none.svg"]
                try:
                    module.main()
                finally:
                    module.save, sys.argv = keep, argv
                figure = seen[0]
                figure.canvas.draw()
                for text in figure.findobj(matplotlib.text.Text):
                    if text.get_visible() and text.get_text():
                        box = text.get_window_extent()
                        self.assertGreaterEqual(box.x0, 0, text.get_text())
                        self.assertGreaterEqual(box.y0, 0, text.get_text())
                        self.assertLessEqual(box.x1, figure.bbox.width, text.get_text())
                        self.assertLessEqual(box.y1, figure.bbox.height, text.get_text())
                style.plt.close(figure)

    def test_bad_input_gets_one_line(self):
        bad = self.folder / "bad.csv"
        cases = {
            "": "no column",
            "chip,cell\n": "no column",
            (DATA / "parity.csv").read_text().replace("0.88", "soon"): "found 'soon'",
            (DATA / "parity.csv").read_text().replace("0.88", "-1"): "expected a time above 0",
            (DATA / "parity.csv").read_text() + "H200,relu\n": "expected 17 cells",
            (DATA / "parity.csv").read_text().splitlines()[0]: "no rows",
        }
        for content, reason in cases.items():
            with self.subTest(reason):
                bad.write_text(content)
                run = draw("parity", "--data", bad, "-o", self.folder / "bad.svg")
                self.assertEqual(run.returncode, 1)
                self.assertIn(reason, run.stderr)
                self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
                self.assertFalse((self.folder / "bad.svg").exists())
        bad.write_text("{")
        for script, reason in (("tornado", "expected the JSON of onchip what-if"), ("trade_off", "no column 'case'")):
            run = draw(script, "--data", bad, "-o", self.folder / "bad.svg")
            self.assertEqual(run.returncode, 1)
            self.assertIn(reason, run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        run = draw("parity", "--data", self.folder / "none.csv", "-o", self.folder / "bad.svg")
        self.assertIn("No such file", run.stderr)
        run = draw("parity", "--data", DATA / "parity.csv", "-o", self.folder / "none" / "figure.svg")
        self.assertIn("No such file", run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)

    def test_the_front_is_what_no_pair_denies(self):
        sys.path.insert(0, str(PLOTS))
        from front import front
        random.seed(1)
        for objectives in ([("a", False), ("b", True)], [("a", True), ("b", False), ("c", True)]):
            signs = [-1 if largest else 1 for _, largest in objectives]
            for _ in range(50):
                points = {tuple(random.randrange(6) for _ in objectives) for _ in range(30)}
                beats = lambda a, b: a != b and all(s * x <= s * y for s, x, y in zip(signs, a, b))  # noqa: E731
                self.assertEqual(front(points, objectives),
                                 sorted(p for p in points if not any(beats(q, p) for q in points)))

    def test_nothing_of_the_current_folder_is_run(self):
        (self.folder / "warnings.py").write_text("open('ran', 'w')\n")
        run = subprocess.run([PLOTS / "python", PLOTS / "front.py", "--data", DATA / "sweep.csv", "-o", "front.svg"],
                             cwd=self.folder, env={**os.environ, "PYTHONPATH": ":."}, capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue((self.folder / "front.svg").exists())
        self.assertFalse((self.folder / "ran").exists())

    def test_labels_are_spread_without_changing_their_order(self):
        sys.path.insert(0, str(PLOTS))
        from style import spread
        self.assertEqual(spread([0.0, 1.0, 2.0], 0.5), [0.0, 1.0, 2.0])
        self.assertEqual(spread([1.0, 1.0], 1.0), [0.5, 1.5])
        moved = spread([0.5, 0.1, 0.12, 0.11, 0.52], 0.1)
        in_order = [moved[i] for i in (1, 3, 2, 0, 4)]
        for low, high in zip(in_order, in_order[1:]):
            self.assertGreaterEqual(high - low, 0.1 - 1e-12)


if __name__ == "__main__":
    unittest.main()
