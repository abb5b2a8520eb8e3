# SPDX-License-Identifier: Apache-2.0
"""examples/planning.ipynb runs from its first cell to its last, and shows tables."""
import ast
import contextlib
import io
import json
import pathlib
import unittest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "planning.ipynb"


def run(source, names):
    """What a cell prints, and what its last expression is."""
    tree, shown = ast.parse(source), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), shown


class Notebook(unittest.TestCase):
    def test_it_goes_from_the_import_to_a_front_in_ten_lines(self):
        cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
        self.assertLessEqual(sum(bool(line.strip()) for cell in cells for line in cell.splitlines()), 10)
        names = {}
        outputs = [run(cell, names) for cell in cells]
        self.assertRegex(outputs[0][0], r"^(fits|runs|does not fit): ")
        for _, shown in outputs[1:]:
            self.assertIn("<table>", shown._repr_html_())
        self.assertEqual(len(names["rows"]), 24)
        sizes = [row["hidden"] for row in names["front"].table]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertGreater(len(set(sizes)), 3)


if __name__ == "__main__":
    unittest.main()
