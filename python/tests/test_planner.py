# SPDX-License-Identifier: Apache-2.0
"""The planner's questions about all workloads by keywords, its rows in a notebook, and its types."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import onchip
from onchip import api

SOURCES = pathlib.Path(__file__).resolve().parents[2]
ROOT = pathlib.Path(onchip.__file__).resolve().parents[1]
TRAIN = {"mode": "train", "cell": "lstm", "batch": 64}
IMAGES = {"network": "spdnn:1024x12", "images": 5000, "alive": 0.25}
FIELDS = ("family", "tier", "storage", "order", "exchange", "sms", "lanes_per_row", "rows_per_group", "tile_rows", "load_bytes",
          "loads_in_flight", "poll_delay", "promote_every", "row_splits", "producer_warps", "batch_groups")  # fmt: skip


def asked(what, **question):
    return onchip.ask("h200", {"ask": what, **question})


def without_seconds(answer):
    """A feed-forward answer says how long its structure took to find."""
    answer.get("base", answer)["structure"].pop("seconds")
    return answer


class Workloads(unittest.TestCase):
    def test_keywords_of_a_training_stand_where_the_question_has_them(self):
        network = {"cell": "lstm", "batch": 64, "hidden": 1024}
        self.assertEqual(onchip.predict("h200", hidden=1024, layers=2, memory="24 GiB", **TRAIN),
                         asked("predict", mode="train", layers=2, memory="24 GiB", network=network))  # fmt: skip
        self.assertEqual(onchip.predict("h200", "lstm", 1024, 64, mode="train", memory=24 << 30, family="dense_training"),
                         asked("predict", mode="train", memory="24 GiB", network=network,
                               constraints={"family": "dense_training"}))  # fmt: skip
        ranked = onchip.predict("h200", hidden=1024, every_family=True, **TRAIN)
        self.assertEqual(ranked, asked("rank", mode="train", network=network))
        changed = onchip.what_if("h200", hidden=1024, changes="sm.count=+10%", **TRAIN)
        self.assertEqual(changed, asked("what_if", mode="train", set=["sm.count=+10%"], network=network))
        fit = onchip.fit("h200", memory="24 GiB", granule=256, **TRAIN)
        self.assertEqual(fit, asked("fit", mode="train", memory="24 GiB", granule=256,
                                    network={"cell": "lstm", "batch": 64}))  # fmt: skip
        self.assertTrue(fit["fits"])

    def test_layers_ask_fit_and_what_if_about_a_stack(self):
        network = {"cell": "lstm", "hidden": 1024, "batch": 4}
        fit = onchip.fit("h200", **network, layers=4)
        self.assertEqual(fit, asked("fit", network=network, layers=4))
        self.assertFalse(fit["fits"])
        self.assertEqual(fit["otherwise"]["way"], "2 layers on the SMs at once")
        least = onchip.what_if("h200", **network, layers=4, vary="sm.count")
        self.assertEqual(least["alone"][0]["values"], {"sm.count": 256})
        self.assertTrue(onchip.fit("h200", "lstm", 512, 4, layers=4)["fits"])
        with self.assertRaisesRegex(onchip.InputError, "a stack that is on the chip at once is dense"):
            onchip.fit("h200", **network, layers=4, density=0.1)

    def test_keywords_of_a_feed_forward_network_do_too(self):
        for name, ask in (("fit", onchip.fit), ("predict", onchip.predict), ("what_if", onchip.what_if)):
            self.assertEqual(without_seconds(ask("h200", **IMAGES, gpus=2)), without_seconds(asked(name, **IMAGES, gpus=2)))
        least = onchip.what_if("h200", **IMAGES, target=["ms<=1"], vary="shared_memory.per_sm")
        self.assertTrue(least["reached"])

    def test_a_stream_is_asked_with_its_layers(self):
        answer = onchip.predict("h200", "lstm", 256, layers=3, streams=1)
        self.assertEqual(answer, asked("predict", layers=3, streams=1, network={"cell": "lstm", "hidden": 256}))
        self.assertGreater(answer["predicted_us"], answer["mailbox_us"])
        with self.assertRaisesRegex(onchip.InputError, "'density' is not of a stream"):
            onchip.predict("h200", "lstm", 256, density=0.1, layers=3, streams=1)

    def test_a_recurrent_step_is_asked_as_ever(self):
        network = {"cell": "lstm", "hidden": 512, "batch": 4, "density": 0.2}
        constraints = {"family": "sparse_persistent", "sms": 64}
        self.assertEqual(onchip.predict("h200", "lstm", 512, 4, 0.2, **constraints),
                         asked("predict", network=network, constraints=constraints))  # fmt: skip
        self.assertEqual(onchip.what_if("h200", "lstm", ["sm.count=+10%"], 512, 4, 0.2),
                         asked("what_if", network=network, granule=32, set=["sm.count=+10%"]))  # fmt: skip
        step = onchip.predict("h200", "lstm", hidden=512)
        self.assertEqual((step["network"]["batch"], step["network"]["precision"]), (1, "fp16"))
        fit = onchip.fit("h200", "lstm", 512, 4, 0.2)
        self.assertIsInstance(fit, onchip.Fit)
        self.assertEqual(fit, onchip.fit("h200", cell="lstm", hidden=512, batch=4, density=0.2, mode="inference"))
        self.assertAlmostEqual(fit.step_us, onchip.predict("h200", **network)["step_us"], places=4)

    def test_sensitivities_are_those_of_what_if(self):
        for network in (IMAGES, {**TRAIN, "hidden": 512}):
            rows = onchip.sensitivities("h200", **network)
            self.assertEqual(rows, onchip.what_if("h200", **network)["sensitivity"])
            self.assertIn("sm.clock", [row["key"] for row in rows])

    def test_sweeps_and_fronts_are_of_all_workloads(self):
        rows = onchip.sweep("h200", {"batch": range(32, 65, 32)}, mode="train", cell="lstm", hidden=512)
        self.assertEqual([row["batch"] for row in rows], [32, 64])
        self.assertEqual(rows[1]["step_us"], onchip.predict("h200", hidden=512, **TRAIN)["step_us"])
        rows = onchip.sweep("h200", "gpus=1,2", column="images_per_sm", **IMAGES)
        self.assertEqual([row["ms"] for row in rows],
                         [onchip.predict("h200", **IMAGES, gpus=gpus)["ms"] for gpus in (1, 2)])  # fmt: skip
        front = onchip.pareto("h200", ["ms", "gpus"], "gpus=1,2", column="images_per_sm", **IMAGES)
        self.assertEqual(sorted((row["gpus"], row["ms"], row["fits"]) for row in front.table),
                         [(row["gpus"], row["ms"], row["fits"]) for row in rows])  # fmt: skip

    def test_a_wrong_keyword_is_named(self):
        lstm = {"cell": "lstm", "hidden": 512}
        for ask, options, message in (
            (onchip.predict, {**TRAIN, "hiden": 512}, "unknown key 'hiden' in network; did you mean 'hidden'"),
            (onchip.predict, {**TRAIN, "layer": 2}, "unknown key 'layer' in question; did you mean 'layers'"),
            (onchip.predict, {**TRAIN, "hidden": 512, "gpus": 2}, "'gpus' is not of a training"),
            (onchip.predict, {**TRAIN, "hidden": 512, "sms": 2}, "unknown key 'sms' in constraints"),
            (onchip.predict, {**lstm, "stash": "gates"}, "'stash' is not of a recurrent network"),
            (onchip.predict, {**lstm, "famly": "x"}, "unknown key 'famly' in constraints; did you mean 'family'"),
            (onchip.predict, {**lstm, "mode": "tran"}, 'found "tran": expected "inference" or "train"'),
            (onchip.predict, {**IMAGES, "gpu": 2}, "unknown key 'gpu' in question; did you mean 'gpus'"),
            (onchip.predict, {**IMAGES, "batch": 2}, "'batch' is not of a feed-forward network"),
            (onchip.predict, {**IMAGES, "mode": "train"}, "a feed-forward network is not trained"),
            (onchip.fit, {**lstm, "batc": 2}, "'batc' is not of the fit of a step, but may be of predict; did you mean 'batch'"),
            (onchip.fit, {**lstm, "mode": "tran"}, 'found "tran": expected "inference" or "train"'),
            (onchip.fit, {**TRAIN, "tier": "registers"}, "unknown key 'tier' in constraints"),
            (onchip.sensitivities, {**lstm, "changes": "sm.count=2"}, "'changes' is of what_if, not of sensitivities"),
            (onchip.sweep, {**lstm, "hiden": 2}, "unknown key 'hiden'; did you mean 'hidden'"),
        ):
            with self.subTest(options), self.assertRaises(onchip.InputError) as caught:
                ask("h200", **options)
            self.assertIn(message, str(caught.exception))

    def test_no_field_of_a_plan_is_taken_for_a_misspelled_keyword(self):
        for field in FIELDS:
            self.assertEqual(api._nearest(field, api._OF_NETWORK + api._OF_QUESTION), field)
        wrong = {"family": "x", "storage": "x", "sms": 0, "batch_groups": 0}
        for field, value in wrong.items():
            with self.assertRaisesRegex(onchip.InputError, "x|0"):
                onchip.predict("h200", "lstm", 512, **{field: value})


class Notebooks(unittest.TestCase):
    def test_rows_are_a_list_of_dicts(self):
        rows = onchip.Rows([{"a": 1}, {"b": 2}], bars=["a"])
        self.assertEqual(rows, [{"a": 1}, {"b": 2}])
        self.assertEqual(json.dumps(rows), '[{"a": 1}, {"b": 2}]')
        self.assertEqual((pickle.loads(pickle.dumps(rows)).bars, rows.columns()), (("a",), ["a", "b"]))

    def test_a_table_has_bars_aligned_numbers_and_no_markup_of_its_values(self):
        rows = [{"<i>": "<b>&\"'", "us": 2.0, "n": 1}, {"us": -0.5, "n": None}, {"us": float("nan"), "ok": True}]
        page = onchip.Rows(rows, bars=["us", "none"])._repr_html_()
        self.assertIn("<th>&lt;i&gt;</th>", page)
        self.assertIn(">&lt;b&gt;&amp;&quot;&#x27;</td>", page)
        self.assertNotIn("<b>", page)
        self.assertRegex(page, r'<td style="text-align:right;background:[^"]* 100.0%[^"]*">2</td>')
        self.assertRegex(page, r'<td style="text-align:right;background:[^"]* 25.0%[^"]*">-0.5</td>')
        self.assertIn('<td style="text-align:right">1</td>', page)
        self.assertRegex(page, r"<td[^>]*left[^>]*>nan</td>")
        self.assertEqual(page.count("linear-gradient"), 2)
        self.assertEqual((page.count("<tr>"), page.count("<td")), (4, 12))

    def test_of_many_rows_the_first_are_shown(self):
        page = onchip.Rows({"a": i} for i in range(250))._repr_html_()
        self.assertEqual(page.count("<tr>"), 101)
        self.assertIn("100 of 250 rows", page)
        self.assertEqual(onchip.Rows()._repr_html_(), "<table><thead><tr></tr></thead><tbody></tbody></table>")

    def test_a_front_shows_its_rows_with_bars_behind_the_objectives(self):
        rows = [{"name": "a", "us": 1.5, "n": 3, "fits": True}, {"name": "b", "us": 1, "n": 2, "fits": True}]
        front = onchip.pareto("h200", "us,n:max", rows=rows)
        self.assertEqual(front["front"][0]["row"]["n"], "2")
        self.assertEqual(sorted(front.table, key=lambda row: row["name"]), rows)
        self.assertEqual(front.table.bars, ("us", "n"))
        self.assertEqual(front._repr_html_().count("linear-gradient"), 4)


class Examples(unittest.TestCase):
    def test_the_example_runs(self):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, SOURCES / "examples" / "plan_in_python.py"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hidden units train on the chip", done.stdout)
        self.assertIn("2 GPUs: ", done.stdout)

    def test_the_page_s_does_too(self):
        page = (SOURCES / "docs" / "explore.md").read_text()
        code = page.partition("```python\n")[2].partition("```")[0]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        self.assertGreater(len(printed.getvalue().splitlines()), 2)


class Types(unittest.TestCase):
    def test_the_package_says_that_it_has_types(self):
        self.assertTrue((ROOT / "onchip" / "py.typed").exists())


@unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy")
class Checked(unittest.TestCase):
    def check(self, code):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "user.py").write_text("import onchip\n" + code)
            return subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir=" + folder, "user.py"],
                cwd=folder, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True,
            ).stdout  # fmt: skip

    def test_right_calls_pass(self):
        self.assertIn("Success", self.check(
            'why: str = onchip.fit("h200", "lstm", hidden=2304, density=0.1).why\n'
            'largest: int = onchip.fit("h200", mode="train", cell="lstm", memory="24 GiB")["network"]["hidden"]\n'
            'ms: float = onchip.predict(onchip.Chip("h200"), network="spdnn:1024x120", gpus=2)["ms"]\n'
            'for row in onchip.sweep("h200", {"hidden": [512]}, "batch=1,4", cell="lstm"):\n    print(row["hidden"] + 1)\n'
            'print(onchip.pareto("h200", "step_us,hidden:max", "hidden=512:1024:512").table.arrow)\n'
            'print(onchip.sensitivities("h200", "lstm", 512)[0]["key"], onchip.largest_hidden("h200", "gru") + 1)\n'
            'print(onchip.FeedForward("spdnn:1024x3").features([[0]], 2).shape, onchip.LSTM(512, 512))\n'
        ))  # fmt: skip

    def test_wrong_calls_do_not(self):
        wrong = {
            "onchip.predct('h200')": 'has no attribute "predct"',
            "onchip.fit('h200', 'lstm', hiden=3)": "No overload variant",
            "onchip.predict('h200', hidden='512')": 'Argument "hidden"',
            "onchip.fit('h200', 'lstm', 512)['fits']": "not indexable",
        }
        found = self.check("\n".join(wrong) + "\n")
        for line, message in enumerate(wrong.values(), 2):
            self.assertRegex(found, rf"user.py:{line}: error: .*{message}")


if __name__ == "__main__":
    unittest.main()
