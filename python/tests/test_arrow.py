# SPDX-License-Identifier: Apache-2.0
"""Rows as an Arrow stream: read through the C structures themselves, and by the libraries that there are."""
import ctypes
import gc
import json
import pathlib
import signal
import subprocess
import sys
import unittest
from ctypes import POINTER, Structure, c_char_p, c_int64, c_void_p

import onchip
from onchip import api

try:
    import pyarrow
except ImportError:
    pyarrow = None
try:
    import pandas
except ImportError:
    pandas = None
try:
    import polars
except ImportError:
    polars = None
try:
    import duckdb
except ImportError:
    duckdb = None

ROWS = [
    {"hidden": 512, "step_us": 1.5, "fits": True, "plan": "dense é", "problem": None, "gpus": 1, "terms": {"a": 1}},
    {"hidden": 2**40, "step_us": None, "fits": None, "plan": None, "problem": None, "gpus": 1.5, "terms": [1, "b"]},
    {"hidden": -3, "step_us": 2, "fits": False, "plan": "", "problem": None, "gpus": 2**70, "late": 7},
]
FORMATS = {"hidden": "l", "step_us": "g", "fits": "b", "plan": "u", "problem": "u", "gpus": "g", "terms": "u", "late": "l"}
# As they are read back: what is no number, bool or text is JSON.
READ = [{name: json.dumps(row[name], separators=(",", ":")) if name == "terms" and name in row else row.get(name) for name in FORMATS} for row in ROWS]


class Schema(Structure):
    pass  # its children are of the same kind: fields below


class Array(Structure):
    pass


class Stream(Structure):
    _fields_ = [(name, c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


Schema._fields_ = [*((name, c_char_p) for name in ("format", "name", "metadata")), ("flags", c_int64), ("n_children", c_int64),
                   ("children", POINTER(POINTER(Schema))), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]  # fmt: skip
Array._fields_ = [*((name, c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")), ("buffers", POINTER(c_void_p)),
                  ("children", POINTER(POINTER(Array))), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]  # fmt: skip


def call(address, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *map(type, arguments))(address)(*arguments)


def release(structure):
    """As a consumer does."""
    pointer = ctypes.pointer(structure)
    ctypes.CFUNCTYPE(None, type(pointer))(structure.release)(pointer)
    assert not structure.release


def moved(structure):
    """The structure at another place, marked as released at the old one."""
    copy = type(structure).from_buffer_copy(structure)
    structure.release = None
    return copy


def stream_of(capsule):
    pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return Stream.from_address(pointer_of(capsule, b"arrow_array_stream"))


def schema_and_array(stream):
    schema, array = ctypes.pointer(Schema()), ctypes.pointer(Array())
    assert call(stream.get_schema, ctypes.pointer(stream), schema) == 0
    assert call(stream.get_next, ctypes.pointer(stream), array) == 0
    return schema.contents, array.contents


def bit(address, i):
    return ctypes.c_uint8.from_address(address + i // 8).value >> i % 8 & 1


def values_of(form, array):
    validity, *buffers = array.buffers[: array.n_buffers]

    def value(i):
        if form == b"b":
            return bool(bit(buffers[0], i))
        if form == b"u":
            first, last = (ctypes.c_int32.from_address(buffers[0] + 4 * k).value for k in (i, i + 1))
            return ctypes.string_at(buffers[1] + first, last - first).decode()
        return {b"l": ctypes.c_int64, b"g": ctypes.c_double}[form].from_address(buffers[0] + 8 * i).value

    return [value(i) if validity is None or bit(validity, i) else None for i in range(array.length)]


class Structures(unittest.TestCase):
    def test_columns_have_the_types_and_the_values_of_the_rows(self):
        capsule = onchip.Rows(ROWS).__arrow_c_stream__()
        stream = moved(stream_of(capsule))
        del capsule
        schema, array = schema_and_array(stream)
        self.assertEqual((schema.format, schema.n_children, array.n_children, array.length), (b"+s", 8, 8, 3))
        columns = {}
        for i in range(schema.n_children):
            child, values = schema.children[i].contents, array.children[i].contents
            name = child.name.decode()
            self.assertEqual(child.format.decode(), FORMATS[name])
            columns[name] = values_of(child.format, values)
            self.assertEqual(values.null_count, columns[name].count(None))
        self.assertEqual([dict(zip(columns, row)) for row in zip(*columns.values())], READ)
        end = ctypes.pointer(Array())
        self.assertEqual(call(stream.get_next, ctypes.pointer(stream), end), 0)
        self.assertFalse(end.contents.release)
        for structure in (stream, schema, array):
            release(structure)

    def test_arrays_outlive_the_stream_and_a_moved_child_its_parent(self):
        capsule = onchip.Rows(ROWS).__arrow_c_stream__()
        schema, array = schema_and_array(stream_of(capsule))
        del capsule  # whose stream nobody has taken
        child = moved(array.children[3].contents)
        release(array)
        release(schema)
        gc.collect()
        self.assertEqual(values_of(b"u", child), ["dense é", None, ""])
        release(child)

    def test_no_rows_are_a_stream_without_a_batch(self):
        capsule = onchip.Rows().__arrow_c_stream__()
        schema, array = schema_and_array(stream_of(capsule))
        self.assertEqual((schema.format, schema.n_children), (b"+s", 0))
        self.assertFalse(array.release)
        release(schema)

    def test_validity_of_more_than_eight_rows(self):
        given = [None if i % 3 == 0 else i % 2 == 0 for i in range(21)]
        capsule = onchip.Rows({"x": value} for value in given).__arrow_c_stream__()
        schema, array = schema_and_array(stream_of(capsule))
        self.assertEqual(values_of(b"b", array.children[0].contents), given)
        release(schema)
        release(array)

    def test_streams_that_are_taken_or_not_leave_nothing(self):
        table, sizes = api.table_of_rows(ROWS * 1000), []
        for i in range(400):
            capsule = table.__arrow_c_stream__()
            if i % 2:
                for structure in schema_and_array(stream_of(capsule)):
                    release(structure)
            del capsule
            api.table_of_rows(ROWS * 100)
            if i % 200 == 199:
                sizes.append(int(pathlib.Path("/proc/self/statm").read_text().split()[1]))  # pages
        self.assertLess(sizes[1] - sizes[0], 500)  # one of these tables has some 60


class Sweeps(unittest.TestCase):
    """Tables of sweeps have what the command prints, row by row, of any workload."""

    def columns_of(self, table):
        schema, array = schema_and_array(stream_of(capsule := table.__arrow_c_stream__()))
        of = {}
        for i in range(schema.n_children):
            child = schema.children[i].contents
            of[child.name.decode()] = values_of(child.format, array.children[i].contents)
        release(schema)
        release(array)
        del capsule
        return of

    def test_columns_are_the_rows_of_the_question(self):
        for axes, fixed in (
            (["hidden=512:1024:256", {"batch": [1, 4]}], {"cell": "lstm", "density": 0.1}),
            (["sm.clock=+0%,+10%", "precision=fp16,fp32"], {"hidden": 300, "column": "twice=2*step_us"}),
            (["hidden=256,512"], {"mode": "train", "cell": "gru", "batch": 32}),
            (["images=1000,60000"], {"network": "spdnn:1024x120", "alive": 0.25}),
            (["hidden=100:900:100"], {"keep_front": "step_us:min,hidden:max", "batch": 2}),
            (["hidden=64,128"], {"where": "hidden > 999"}),
        ):
            with self.subTest(axes=axes):
                table = onchip.sweep_table("h200", *axes, **fixed)
                asked = {"ask": "sweep", "axis": axes, **{key: [value] if key == "column" else value for key, value in fixed.items()}}
                rows = onchip.ask("h200", asked)["rows"]
                self.assertEqual(table.rows(), rows)
                self.assertEqual(len(table), len(rows))
                if rows and "keep_front" not in fixed:  # else of several batches
                    whole = pyarrow.table(table).to_pylist() if pyarrow else None
                    self.assertIn(whole, (None, rows))

    def test_types_are_those_of_the_keys(self):
        of = self.columns_of(onchip.sweep_table("h200", "hidden=512,1024", "sm.clock=1.5 GHz,+1%", batch=4, density=0.1))
        self.assertIsInstance(of["hidden"][0], int)
        self.assertIsInstance(of["sm.clock"][0], float)
        self.assertIsInstance(of["density"][0], float)
        self.assertIs(of["fits"][0], True)
        self.assertEqual(of["problem"][0], None)

    def test_an_error_is_the_question_s(self):
        with self.assertRaisesRegex(onchip.InputError, "hiden"):
            onchip.sweep_table("h200", "hiden=512")
        with self.assertRaises(onchip.InputError):
            onchip.sweep("h200", "hidden=512,1024", where="hiden > 1")

    def test_progress_is_shown_and_a_sweep_can_be_stopped(self):
        code = ("import onchip\ntry:\n  onchip.sweep('h200', 'hidden=512:8192:1', 'batch=1:64:1', density=0.1, progress=True)\n"
                "except KeyboardInterrupt:\n  print('stopped')\n")  # fmt: skip
        asked = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=pathlib.Path(onchip.__file__).resolve().parents[1])  # fmt: skip
        shown = b""
        while b" rows, " not in shown:
            shown += asked.stderr.read(1)
        asked.send_signal(signal.SIGINT)
        out, _ = asked.communicate(timeout=60)
        self.assertEqual((out, asked.returncode), (b"stopped\n", 0))
        self.assertRegex(shown, rb"[\d,]+ of 491,\d\d\d rows, ")


@unittest.skipUnless(pyarrow, "no pyarrow")
class PyArrow(unittest.TestCase):
    def test_a_table_has_the_rows(self):
        rows = onchip.Rows(ROWS)
        table = pyarrow.table(rows.arrow)
        table.validate(full=True)
        self.assertEqual([str(of) for of in table.schema.types],
                         ["int64", "double", "bool", "string", "string", "double", "string", "int64"])  # fmt: skip
        self.assertEqual(table.to_pylist(), READ)
        self.assertEqual(pyarrow.RecordBatchReader.from_stream(rows).read_all(), table)
        self.assertEqual(pyarrow.table(onchip.Rows([{}]).arrow).num_columns, 0)

    def test_a_column_outlives_its_table_and_its_rows(self):
        column = pyarrow.table(onchip.Rows(ROWS).arrow)["plan"]
        gc.collect()
        self.assertEqual(column.to_pylist(), ["dense é", None, ""])
        del column

    def test_a_thousand_tables_leave_nothing(self):
        rows, before = onchip.Rows(ROWS), pyarrow.total_allocated_bytes()
        for i in range(1000):
            if i % 2:
                pyarrow.table(rows.arrow)
            else:
                pyarrow.RecordBatchReader.from_stream(rows)  # which reads nothing
        self.assertEqual(pyarrow.total_allocated_bytes(), before)

    def test_a_table_that_dies_in_the_expression_that_fails_is_released(self):
        with self.assertRaises(KeyError):
            pyarrow.table(onchip.Rows(ROWS).arrow)["none"]

    def test_a_table_may_live_until_the_interpreter_ends(self):
        code = "import onchip, pyarrow\nt = pyarrow.table(onchip.Rows([{'a': 1}]).arrow)\nc = onchip.Rows().__arrow_c_stream__()\n"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              cwd=pathlib.Path(onchip.__file__).resolve().parents[1])  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Others(unittest.TestCase):
    @unittest.skipUnless(pandas and pyarrow, "no pandas, or no pyarrow")
    def test_pandas(self):
        frame = pyarrow.table(onchip.Rows(ROWS).arrow).to_pandas()
        self.assertEqual(frame["hidden"].tolist(), [row["hidden"] for row in ROWS])
        self.assertEqual(pandas.DataFrame(onchip.Rows(ROWS))["hidden"].tolist(), frame["hidden"].tolist())

    @unittest.skipUnless(polars, "no polars")
    def test_polars(self):
        self.assertEqual(polars.DataFrame(onchip.Rows(ROWS).arrow).to_dicts(), READ)

    @unittest.skipUnless(duckdb, "no DuckDB")
    def test_duckdb(self):
        rows = onchip.Rows(ROWS).arrow  # noqa: F841  # DuckDB finds it by its name
        found = duckdb.sql("select hidden, plan from rows where fits").fetchall()
        self.assertEqual(found, [(512, "dense é")])


if __name__ == "__main__":
    unittest.main()
