#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Questions as people ask them, through the command, with what must be true of the answers.
  tests/experiments/as_users_ask.py ONCHIP"""
import json
import os
import pathlib
import random
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest

ONCHIP = os.path.abspath(sys.argv.pop(1))


def run(words, status=0, stdin=None, folder=None):
    got = subprocess.run([ONCHIP] + shlex.split(words), stdin=stdin and subprocess.PIPE, input=stdin, capture_output=True,
                         text=True, cwd=folder)
    if got.returncode != status:
        raise AssertionError(f"onchip {words}: exit {got.returncode}, not {status}\n{got.stdout}{got.stderr}")
    return got.stdout if status == 0 else got.stderr


def answer(words):
    return json.loads(run(words + " --format json"))


class KernelEngineer(unittest.TestCase):
    NETWORK = "--chip h100 --cell lstm --hidden 3072 --batch 4 --density 10%"

    def test_fewer_banks_cost(self):
        steps = [answer(f"predict {self.NETWORK} --set shared_memory.banks={banks}")["step_us"] for banks in (32, 16, 8)]
        self.assertLess(1.5 * steps[0], steps[1])
        self.assertLess(1.5 * steps[1], steps[2])

    def test_the_step_is_above_its_floor_and_in_its_interval(self):
        step = answer(f"predict {self.NETWORK}")
        low, high = step["interval_us"]
        self.assertLessEqual(step["floor_us"], low)
        self.assertLess(low, step["step_us"])
        self.assertLess(step["step_us"], high)

    def test_a_recorded_step_takes_the_same_time_again(self):
        with tempfile.TemporaryDirectory() as folder:
            words = "simulate --chip h100 --hidden 1024 --density 10% --family sparse_persistent"
            step = json.loads(run(f"{words} --record step.trace --format json", folder=folder))
            again = json.loads(run("simulate --chip h100 --trace step.trace --format json", folder=folder))
        self.assertEqual(step["step_us"], again["step_us"])


class MachineLearningEngineer(unittest.TestCase):
    def test_names_as_people_type_them(self):
        for words in ("--chip H100 --cell LSTM --precision FP16", "--chip 4090 --cell gru", "--chip 'RTX 4090' --cell relu"):
            self.assertIn("step", run(f"predict {words} --hidden 512 --density 10%"))

    def test_a_checkpoint_is_told_how_to_become_a_file_of_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "model.pt").write_bytes(b"PK\x03\x04" + bytes(60))
            self.assertIn("safetensors", run("predict --weights model.pt", status=2, folder=folder))

    def test_a_checkpoint_of_several_layers_is_answered_layer_by_layer(self):
        draw = random.Random(45)
        names = [f"encoder.rnn.weight_{kind}_l{layer}{way}" for layer in range(2) for way in ("", "_reverse") for kind in ("ih", "hh")]
        hidden, header, data = 64, {}, b""
        for name in names:
            values = [draw.choice((0.0, 0.0, 0.5)) for _ in range(4 * hidden * hidden)]
            tensor = struct.pack(f"<{len(values)}f", *values)
            header[name] = {"dtype": "F32", "shape": [4 * hidden, hidden], "data_offsets": [len(data), len(data) + len(tensor)]}
            data += tensor
        recurrent = [name for name in names if "_hh_" in name]
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(header).encode()
            pathlib.Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
            words = "--chip h200 --cell lstm --weights model.safetensors --format json"
            for verb in ("predict", "fit"):
                whole = json.loads(run(f"{verb} {words}", folder=folder))
                self.assertEqual([layer["tensor"] for layer in whole["layers"]], recurrent)
                each = [json.loads(run(f"{verb} {words} --tensor {name}", folder=folder)) for name in recurrent]
                for layer, alone in zip(whole["layers"], each):
                    self.assertEqual((layer["step_us"], layer["fits"], layer["plan"]), (alone["step_us"], alone["fits"], alone["plan"]))
                self.assertAlmostEqual(whole["step_us"], sum(alone["step_us"] for alone in each), places=4)
                self.assertTrue(whole["fits"])
            self.assertIn(recurrent[3], run(f"predict {words} --tensor encoder.rnn".replace("json", "csv"), folder=folder))
            for verb in ("predict --plan all", "what-if", "simulate", "predict --layers 2"):
                self.assertIn("name", run(f"{verb} {words}", status=2, folder=folder))

    def test_an_output_that_nobody_writes_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(".parquet", run("predict --hidden 512 -o step.parquet", status=2, folder=folder))
            self.assertEqual(os.listdir(folder), [])

    def test_a_whole_network(self):
        one = answer("predict --chip h100 --cell lstm --hidden 512 --density 20% --input 512 --layers 1 --steps 200")
        two = answer("predict --chip h100 --cell lstm --hidden 512 --density 20% --input 512 --layers 2 --steps 200")
        self.assertLess(1.8 * one["sequence"]["us"], two["sequence"]["us"])


class HardwarePlanner(unittest.TestCase):
    def test_more_registers_never_hold_less(self):
        for words in ("--chip h200 --batch 16 --density 30%", "--chip a100 --batch 4 --density 10%",
                      "--chip v100 --batch 16 --density 10%"):
            base, more = (answer(f"fit {words} --cell lstm {change}")["network"]["hidden"]
                          for change in ("", "--set registers.per_sm=+100%"))
            self.assertLessEqual(base, more, words)

    def test_what_is_said_to_make_it_fit_does(self):
        for hidden in (7424, 8192):
            words = {"--chip": "h200", "--cell": "relu", "--hidden": str(hidden), "--batch": "4", "--density": "30%",
                     "--tier": "shared_memory", "--format": "json"}
            said = lambda words: json.loads(
                subprocess.run([ONCHIP, "fit"] + [word for pair in words.items() for word in pair], stdout=subprocess.PIPE,
                               check=False).stdout)
            remedies = said(words)["to_fit"]
            self.assertGreater(len(remedies), 1)
            for remedy in remedies:
                option, value = shlex.split(remedy["option"])
                self.assertIs(said(words | {option: value})["fits"], True, remedy)

    def test_more_of_everything_is_not_slower(self):
        words = "--chip b200 --cell relu --hidden 512 --batch 2 --density 10% --precision fp32"
        base = answer(f"predict {words}")["step_us"]
        for key in ("sm.count", "shared_memory.per_sm", "registers.per_sm", "l2.size", "sm.clock"):
            more = answer(f"predict {words} --set {key}=+50%")["step_us"]
            self.assertLessEqual(more, 1.001 * base, key)

    def test_two_chips_side_by_side(self):
        self.assertIn("A100", run("chips h200 a100"))

    def test_an_old_chip_has_a_wide_interval(self):
        step = answer("predict --chip p100 --hidden 1792 --batch 4 --density 10% --sms 56")
        low, high = step["interval_us"]
        self.assertLess(low, 5.7)
        self.assertLess(5.7, high)

    def test_a_chip_of_a_few_lines(self):
        text = 'base = "h200"\nname = "Mine"\n[sm]\ncount = { value = 200, source = "a plan" }\n'
        got = subprocess.run([ONCHIP, "predict", "--chip", "-", "--hidden", "2304", "--density", "10%"], input=text,
                             capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("Mine", got.stdout)


class Researcher(unittest.TestCase):
    def test_a_streamed_plan_is_named_where_it_is_faster(self):
        kept = answer("fit --chip h200 --cell relu --hidden 7392 --batch 4 --density 30% --tier shared_memory")
        free = answer("predict --chip h200 --cell relu --hidden 7392 --batch 4 --density 30%")
        self.assertAlmostEqual(kept["instead"]["step_us"], free["step_us"], places=6)

    def test_weights_that_vanish_in_the_type_do_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"{i % 64 + 1} {i // 64 + 1} {1 if i % 10 == 0 else 1e-9}" for i in range(4096)]
            pathlib.Path(folder, "w.mtx").write_text("%%MatrixMarket matrix coordinate real general\n64 64 4096\n" +
                                                     "\n".join(lines) + "\n")
            step = json.loads(run("predict --weights w.mtx --precision fp16 --format json", folder=folder))
        self.assertLess(step["network"]["density"], 0.11)


class Explorer(unittest.TestCase):
    def test_booleans_and_schema(self):
        fits = answer("fit --chip h200 --cell relu --hidden 1024 --density 10%")
        self.assertIs(fits["fits"], True)
        self.assertIn("schema", fits)
        self.assertIn("true", run("fit --chip h200 --cell relu --hidden 1024 --density 10% --format csv"))

    def test_no_two_rows_of_a_what_if_have_the_same_name(self):
        text = run("what-if --chip h200 --hidden 2304 --density 30% --set sm.count=+10% --no-ranking")
        names = [line.rsplit("  ", 3)[0].strip() for line in text.splitlines() if line.startswith("bytes")]
        self.assertEqual(len(names), len(set(names)), names)

    def test_an_unknown_chip_is_told_the_nearest_and_where_to_add_one(self):
        said = run("predict --chip h2000 --hidden 512", status=2)
        self.assertIn("h200", said.lower())


if __name__ == "__main__":
    unittest.main()
