# SPDX-License-Identifier: Apache-2.0
"""What the module answers and refuses without torch and without a GPU."""
import array
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import unittest

import onchip
from onchip import library, tensors

try:
    import numpy
except ImportError:
    numpy = None


def pruned(rows, columns):
    """Row-major fp32, a sixth of it not zero."""
    return array.array("f", ((i * 37 % 97) / 200 + 0.01 if i % 6 == 0 else 0 for i in range(rows * columns)))


def matrix(gates=1, hidden=64):
    values = memoryview(pruned(gates * hidden, hidden)).cast("B").cast("f", (gates * hidden, hidden))
    return onchip.Matrix.dense(values)


class Importing(unittest.TestCase):
    def run_python(self, code, **environment):
        root = str(pathlib.Path(onchip.__file__).resolve().parents[1])
        return subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": root, **environment}, capture_output=True, text=True
        )

    def test_importing_loads_neither_torch_nor_the_library(self):
        code = (
            "import sys, onchip, onchip.library as l\n"
            "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
            "assert l.load.cache_info().currsize == 0\n"
        )
        done = self.run_python(code, ONCHIP_LIBRARY="/nowhere/libonchip.so")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_missing_library_is_named_at_the_first_use(self):
        done = self.run_python("import onchip; onchip.Chip('h200')", ONCHIP_LIBRARY="/nowhere/libonchip.so")
        self.assertIn("no libonchip.so at /nowhere/libonchip.so; set ONCHIP_LIBRARY", done.stderr)

    def test_another_library_is_refused(self):
        with self.assertRaises((OSError, AttributeError)):
            ctypes.CDLL("libc.so.6").onchip_api_version


class Fits(unittest.TestCase):
    def test_what_fits_has_times_and_a_reason(self):
        fit = onchip.fit("h200", "lstm", hidden=1024, batch=4, density=0.1, tier="shared_memory")
        self.assertTrue(fit.fits)
        self.assertTrue(fit.why.startswith("fits: "))
        self.assertIn(fit.binding, [resource.name for resource in fit.resources])
        self.assertLessEqual(fit.low_us, fit.step_us)
        self.assertLessEqual(fit.step_us, fit.high_us)
        self.assertGreater(fit.floor_us, 0)
        self.assertEqual(len(fit.resources), 5)

    def test_what_does_not_fit_is_an_answer(self):
        fit = onchip.fit("h200", "lstm", hidden=20000, density=0.5)
        self.assertFalse(fit.fits)
        self.assertTrue(fit.why.startswith("does not fit: needs "))
        self.assertEqual(fit.step_us, 0)

    def test_a_matrix_says_its_size_and_density(self):
        weights = matrix(4, 64)
        self.assertEqual(weights.shape, (256, 64))
        self.assertEqual(weights.nnz, 256 * 64 // 6 + 1)
        self.assertTrue(onchip.fit("h200", "lstm", matrix=weights).fits)

    def test_the_largest_fits(self):
        hidden = onchip.largest_hidden("h200", "relu", batch=4, density=0.3, granule=512)
        self.assertGreater(hidden, 0)
        for size, fits in ((hidden, True), (hidden + 512, False)):
            fit = onchip.fit("h200", "relu", hidden=size, batch=4, density=0.3, tier="shared_memory")
            self.assertEqual(fit.fits, fits)

    def test_a_whole_network_has_the_time_of_its_sequence(self):
        network = {"cell": "lstm", "hidden": 512, "batch": 4, "density": 0.2, "steps": 99}
        step = onchip.predict("h200", **network)
        whole = onchip.predict("h200", **network, layers=2, bidirectional=True, input=80)
        sequence = whole.pop("sequence")
        self.assertEqual(whole, step)
        self.assertEqual(len(sequence["parts"]), 12)
        self.assertGreater(sequence["us"], 4 * 99 * step["step_us"])

    def test_any_workload_is_asked_as_a_dict(self):
        lstm = {"mode": "train", "network": {"cell": "lstm", "batch": 64}, "granule": 256}
        largest = onchip.ask("h200", {"ask": "fit", **lstm})
        self.assertTrue(largest["fits"])
        self.assertEqual(largest["plan"]["family"], "dense_training")
        self.assertEqual(largest["network"]["hidden"], largest["limits"][0]["largest"])
        images = {"network": "spdnn:1024x12", "images": 5000, "alive": 0.25}
        ranked = onchip.ask("h200", {"ask": "rank", **images})["plans"]
        self.assertEqual(ranked[0]["ms"], onchip.ask("h200", {"ask": "predict", **images})["ms"])
        ours = {"blocks", "streamed", "dense_layer", "unstructured", "staged"}
        self.assertEqual({plan["family"] for plan in ranked}, ours | {"cublas_layers", "cusparse_layers"})
        for wrong in ({**images, "layers": 2}, {**lstm, "gpus": 2}, {**images, "mode": "train"}):
            with self.assertRaises(onchip.InputError):
                onchip.ask("h200", {"ask": "predict", **wrong})

    def test_resources_say_what_of_each_memory_holds_weights_and_state(self):
        step = {"network": {"cell": "lstm", "hidden": 6112, "batch": 4, "density": 0.1}, "rows": "expected"}
        train = {"mode": "train", "network": {"cell": "lstm", "hidden": 1024, "batch": 64}}
        sparse = {"mode": "train", "network": {"cell": "lstm", "hidden": 1024, "batch": 4, "density": 0.05}}
        for question in (step, train, sparse):
            for plan in onchip.ask("h200", {"ask": "rank", **question})["plans"]:
                uses = {use["name"]: use for use in plan.get("resources", [])}
                for use in uses.values():
                    self.assertGreaterEqual(min(use["weights"], use["state"]), 0)
                    self.assertLessEqual(use["weights"] + use["state"], use["used"], (plan["family"], use))
                # All weights are in one of the SM's memories. Sparse trainings do not say what registers they need.
                if uses and plan["fits"] and uses["registers"]["used"] > 0:
                    self.assertGreater(uses["registers"]["weights"] + uses["shared_memory"]["weights"], 0, plan["family"])

    def test_a_row_of_a_sweep_is_a_prediction_and_its_front_is_what_no_row_beats(self):
        axes = ({"hidden": [512, 1024]}, "batch=1,4")
        rows = onchip.sweep("h200", *axes, cell="lstm", density=0.1, column=["per_sample=step_us/batch"], where="fits")
        self.assertEqual([(row["hidden"], row["batch"]) for row in rows], [(512, 1), (512, 4), (1024, 1), (1024, 4)])
        for row in rows:
            one = onchip.predict("h200", "lstm", row["hidden"], row["batch"], 0.1)
            self.assertEqual((row["step_us"], row["plan"]), (one["step_us"], one["plan"]["text"]))
            self.assertAlmostEqual(row["per_sample"], row["step_us"] / row["batch"], places=5)
        front = onchip.pareto("h200", "per_sample,hidden:max", rows=rows)
        self.assertEqual([int(point["row"]["row"]) for point in front["front"]], [1, 3])
        same = onchip.pareto("h200", "per_sample,hidden:max", *axes, cell="lstm", density=0.1,
                             column=["per_sample=step_us/batch"], where="fits")  # fmt: skip
        self.assertEqual([point["row"] for point in same["front"]], [point["row"] for point in front["front"]])
        each = onchip.pareto("h200", "step_us,hidden:max", rows=rows, by="batch", where="hidden > 0")
        self.assertEqual([point["row"]["row"] for point in each["front"] if point["row"]["batch"] == str(rows[0]["batch"])],
                         [point["row"]["row"] for point in onchip.pareto(
                             "h200", "step_us,hidden:max", rows=[row for row in rows if row["batch"] == rows[0]["batch"]]
                         )["front"]])  # fmt: skip

    def test_chips_can_be_changed(self):
        chip = onchip.Chip("h200")
        chip.set("sm.count=20")
        resources = {resource.name: resource for resource in onchip.fit(chip, "relu", hidden=512).resources}
        self.assertEqual(resources["sms"].available, 20)


    def test_more_samples_than_a_launch_of_other_families_takes(self):
        self.assertTrue(onchip.fit("h200", "lstm", 1024, batch=1000).plan.startswith("dense_pipelined "))


class Errors(unittest.TestCase):
    def expect(self, error, message, function, *arguments, **options):
        with self.assertRaises(error) as caught:
            function(*arguments, **options)
        self.assertIn(message, str(caught.exception))

    def test_wrong_words_and_numbers(self):
        self.expect(onchip.InputError, "unknown cell 'lstn'; expected one of relu", onchip.fit, "h200", "lstn", 64)
        self.expect(onchip.InputError, "unknown precision 'fp61'", onchip.fit, "h200", "lstm", 64, precision="fp61")
        self.expect(onchip.InputError, "'h2000'", onchip.fit, "h2000", "lstm", 64)
        self.expect(onchip.InputError, "neither a hidden size nor a matrix", onchip.fit, "h200", "lstm")
        self.expect(ValueError, "at most 64 samples", onchip.fit, "h200", "tanh", 64, batch=65)
        self.expect(onchip.InputError, "sm.cuont", onchip.Chip("h200").set, "sm.cuont=2")

    def test_matrices(self):
        self.expect(onchip.InputError, "1 dimensions; expected 2", onchip.Matrix.dense, array.array("f", [1, 2]))
        self.expect(ValueError, "not contiguous fp32", onchip.Matrix.dense, array.array("d", [1, 2]))
        self.expect(TypeError, "expected a tensor or a buffer", onchip.Matrix.dense, 3)
        self.expect(onchip.InputError, "cannot read the file", onchip.Matrix.from_file, "none.safetensors")

    def test_programs(self):
        make = onchip.Program
        self.expect(onchip.InputError, "the matrix is 64 x 64", make, "h200", "lstm", matrix(), architecture="sm_90")
        self.expect(
            onchip.InputError, "has shape [3]; expected [64]", make, "h200", "relu", matrix(),
            input_bias=array.array("f", [1, 2, 3]), architecture="sm_90",
        )  # fmt: skip

    def test_torch_is_asked_for_only_by_from_torch(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.expect(ImportError, "torch", onchip.from_torch, None)
        else:
            self.expect(TypeError, "expected a torch.nn.LSTM, GRU or RNN", onchip.from_torch, None)


class Programs(unittest.TestCase):
    def test_a_program_is_made_and_asked_without_a_gpu(self):
        bias = array.array("f", [0.5] * 192)
        program = onchip.Program("h200", "gru", matrix(3), 5, "bf16", bias, bias, architecture="sm_90")
        self.assertTrue(program.fit.fits)
        self.assertTrue(10 < program.registers <= 255)
        self.assertGreater(program.workspace_bytes(100), program.workspace_bytes(1))
        with self.assertRaises(onchip.InputError):
            program.workspace_bytes(0)
        with self.assertRaises(onchip.InputError) as caught:
            onchip.Recurrence(program, None, program.workspace_bytes(1), 1)
        self.assertIn("the workspace is null", str(caught.exception))

    def test_structures_are_as_large_as_the_headers(self):
        header = pathlib.Path(__file__).resolve().parents[2] / "kernels" / "api"
        structures = {name: getattr(library, name) for name in ("Error", "Network", "Resource", "Fit", "Sequences")}
        lines = "".join(
            f'printf("%zu\\n", sizeof(onchip_{name.lower()}));'
            + "".join(
                f'printf("%zu\\n", offsetof(onchip_{name.lower()}, {field[0]}));' for field in structure._fields_
            )
            for name, structure in structures.items()
        )
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "sizes.c")
            source.write_text(f"#include <stdio.h>\n#include <onchip.h>\nint main(void) {{ {lines} return 0; }}\n")
            try:
                subprocess.run(["cc", "-std=c99", f"-I{header}", source, "-o", f"{folder}/sizes"], check=True)
            except FileNotFoundError:
                self.skipTest("no C compiler")
            found = subprocess.run([f"{folder}/sizes"], check=True, capture_output=True, text=True).stdout.split()
        expected = []
        for structure in structures.values():
            expected.append(ctypes.sizeof(structure))
            expected += [getattr(structure, field[0]).offset for field in structure._fields_]
        self.assertEqual([int(number) for number in found], expected)


@unittest.skipUnless(numpy, "no numpy")
class Tensors(unittest.TestCase):
    def test_a_view_is_where_the_tensor_is(self):
        values = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        view = tensors.View(values[1:], "x")
        self.assertEqual(view.pointer, values.ctypes.data + 16)
        self.assertEqual(view.shape, (2, 4))
        self.assertEqual((view.device, view.type), (tensors.CPU, tensors.ELEMENTS["fp32"]))
        self.assertEqual(ctypes.c_float.from_address(view.pointer).value, 4)

    def test_a_view_keeps_its_tensor(self):
        view = tensors.View(numpy.full((1000,), 7, dtype=numpy.float32), "x")
        self.assertEqual(ctypes.c_float.from_address(view.pointer + 3996).value, 7)

    def test_what_is_not_contiguous_of_another_type_or_place_is_refused(self):
        values = numpy.zeros((4, 4), dtype=numpy.float32)
        for bad in (values.T[:, :2], values[:, ::2]):
            with self.assertRaisesRegex(ValueError, "x is not contiguous"):
                tensors.View(bad, "x")
        with self.assertRaisesRegex(ValueError, "the matrix is not fp32"):
            onchip.Matrix.dense(values.astype(numpy.float64))
        with self.assertRaisesRegex(ValueError, "x is not on a CUDA device"):
            tensors.device_pointer(values, "x", (4, 4), "fp32", 0, [])
        with self.assertRaisesRegex(TypeError, "expected a tensor with __dlpack__"):
            tensors.View([1.0], "x")

    def test_addresses_and_none_pass(self):
        self.assertEqual(tensors.device_pointer(4096, "x", (1,), "fp16", 0, []), 4096)
        self.assertIsNone(tensors.device_pointer(None, "x", (1,), "fp16", 0, []))

    def test_a_matrix_is_the_same_from_a_tensor_and_from_a_buffer(self):
        values = numpy.array(pruned(64, 64), dtype=numpy.float32).reshape(64, 64)
        self.assertEqual(onchip.Matrix.dense(values).nnz, matrix().nnz)


if __name__ == "__main__":
    unittest.main()
