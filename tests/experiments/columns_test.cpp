// SPDX-License-Identifier: Apache-2.0
// Named columns: one list of them in all forms of an answer.
#include "model/answer/columns.hpp"
#include "experiments/command/output.hpp"

#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace onchip;

namespace {

struct Row {
  std::string name;
  std::optional<double> us = {};
  Timing timing = {};
  std::vector<int> list = {};
};

Columns<Row> columns_of_row() {
  Columns<Row> columns;
  columns.add("name", "", "of it", &Row::name);
  columns.add("us", "us", "predicted", &Row::us, "predicted/us", In::csv_and_json, 3);
  columns.add_to_json("list", "numbers", [](const Row& row) { return Json(row.list); });
  columns.add_time("step_us", "us", "measured", &Row::timing, "", "step_low_us", "step_high_us");
  columns.add("plan", "", "its text, and fields", [](const Row& row) {
    return row.us ? ColumnValue(Json{{"text", "sparse warps=8"}, {"warps", 8}}) : ColumnValue();
  });
  return columns;
}

}  // namespace

TEST_CASE("a row has the same values in CSV, JSON and lists", "[fast]") {
  const Columns<Row> columns = columns_of_row();
  const std::vector<Row> rows{{"a, b", 12.345, summarize({2, 2, 2, 2, 2, 2}), {3, 4}}, {"c"}};
  const Table table = columns.table(rows);
  CHECK(table.columns ==
        std::vector<std::string>{"name", "us", "step_us", "step_low_us", "step_high_us", "samples", "plan"});
  CHECK(table.rows[0] == std::vector<std::string>{"a, b", "12.3", "2", "2", "2", "6", "sparse warps=8"});
  CHECK(columns.cells(rows[0]) == table.rows[0]);
  CHECK(columns.json(rows[0]).dump() ==
        R"({"name":"a, b","predicted":{"us":12.345},"list":[3,4],)"
        R"("step_us":{"median":2.0,"low":2.0,"high":2.0,"samples":6,"within_percent":0.0},)"
        R"("plan":{"text":"sparse warps=8","warps":8}})");
  CHECK(columns.list(rows[0]) ==
        "name          a, b\nus            12.3 us\nstep_us       2 us\nstep_low_us   2 us\nstep_high_us  2 us\n"
        "samples       6\nplan          sparse warps=8\n");
  const Table some = columns.table(rows, {"step_us", "name"});
  CHECK(some.columns == std::vector<std::string>{"name", "step_us"});  // in the order of the list
  CHECK(some.rows[0] == std::vector<std::string>{"a, b", "2"});
}

TEST_CASE("what there is none of is empty in CSV, and left out in JSON and lists", "[fast]") {
  const Columns<Row> columns = columns_of_row();
  const Row row{"c"};
  CHECK(columns.cells(row) == std::vector<std::string>{"c", "", "", "", "", "0", ""});
  CHECK(columns.json(row).dump() == R"({"name":"c","list":[]})");
  CHECK(columns.list(row) == "name          c\nsamples       0\n");
  // A number that is none is none of it, either.
  CHECK(cell_text(ColumnValue(std::numeric_limits<double>::quiet_NaN()), 6).empty());
  Json json = Json::object();
  put_in_json({"us", "us", "", "us"}, ColumnValue(std::numeric_limits<double>::infinity()), json);
  CHECK(json.empty());
}

TEST_CASE("numbers of CSV and JSON are those of the row, to the digits of their column", "[fast]") {
  Random random(3, 0);
  const Columns<Row> columns = columns_of_row();
  for (int i = 0; i < 500; ++i) {
    const Row row{"r", std::exp(40 * random.unit() - 20), summarize({1 + random.unit(), 1 + random.unit()})};
    const std::vector<std::string> cells = columns.cells(row);
    const Json json = columns.json(row);
    CAPTURE(*row.us, cells[1]);
    CHECK(std::abs(std::stod(cells[1]) / *row.us - 1) <= 0.5e-2);
    CHECK(std::abs(json["predicted"]["us"].get<double>() / *row.us - 1) <= 0.5e-5);
    CHECK(std::abs(std::stod(cells[2]) / row.timing.median - 1) <= 0.5e-5);
    CHECK(json["step_us"]["median"].get<double>() == std::stod(cells[2]));
    CHECK(json["step_us"]["low"].get<double>() == std::stod(cells[3]));
    CHECK(json["step_us"]["samples"].get<int>() == 2);
    CHECK_FALSE(json["step_us"].contains("within_percent"));  // two samples tell no interval
  }
}

TEST_CASE("what columns mean is an answer, too", "[fast]") {
  const std::vector<ColumnGroup> groups{columns_of_row().group("rows")};
  const Report report = explain(groups);
  CHECK(report.csv.rows.size() == 9);
  CHECK(report.csv.rows[1] ==
        std::vector<std::string>{"rows", "us", "us", "CSV and JSON", "predicted/us", "predicted"});
  CHECK(report.csv.rows[2][3] == "JSON");
  CHECK(report.json["columns"][1]["help"].get<std::string>() == "predicted");
}
