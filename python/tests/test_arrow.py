# SPDX-License-Identifier: Apache-2.0
"""Rows as an Arrow stream: read through the C structures themselves, and by the libraries that there are."""
import ctypes
import gc
import json
import pathlib
import subprocess
import sys
import tracemalloc
import unittest
import unittest.mock

import onchip
from onchip import arrow

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
READ = [{name: json.dumps(row[name]) if name == "terms" and name in row else row.get(name) for name in FORMATS} for row in ROWS]


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
    pointer = arrow._capsule_pointer(id(capsule), b"arrow_array_stream")
    return arrow.Stream.from_address(pointer)


def schema_and_array(stream):
    schema, array = ctypes.pointer(arrow.Schema()), ctypes.pointer(arrow.Array())
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
    def tearDown(self):
        gc.collect()
        self.assertEqual(arrow._kept, {})

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
        end = ctypes.pointer(arrow.Array())
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

    def test_a_stream_that_nobody_takes_is_released(self):
        capsule = onchip.Rows(ROWS).arrow.__arrow_c_stream__()
        self.assertTrue(arrow._kept)
        del capsule

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

    def test_a_thousand_streams_leave_nothing(self):
        rows, sizes = onchip.Rows(ROWS), []
        tracemalloc.start()
        for i in range(1100):
            capsule = rows.__arrow_c_stream__()
            if i % 2:
                for structure in schema_and_array(stream_of(capsule)):
                    release(structure)
            del capsule
            if i in (99, 1099):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        self.assertLess(sizes[1] - sizes[0], 20_000)  # a stream of these rows has some 10,000 bytes


@unittest.skipUnless(pyarrow, "no pyarrow")
class PyArrow(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        self.assertEqual(arrow._kept, {})

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
        with unittest.mock.patch("sys.unraisablehook") as printed, self.assertRaises((KeyError, SystemError)):
            pyarrow.table(onchip.Rows(ROWS).arrow)["none"]
        for call_of in printed.call_args_list:
            self.assertIsInstance(call_of[0][0].exc_value, KeyError)
        del printed, call_of

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
