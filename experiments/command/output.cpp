// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/output.hpp"

#include "experiments/command/terminal.hpp"
#include "model/base/error.hpp"

#include <iostream>

namespace onchip {

Report explain(std::span<const ColumnGroup> groups) {
  Report report{.text = {},
                .csv = {{"rows", "column", "unit", "in", "json_place", "help"}, {}},
                .json = {{"columns", Json::array()}}};
  for (const ColumnGroup& group : groups) {
    for (const ColumnInfo& column : group.columns) {
      const char* const in = column.in == In::csv ? "CSV" : column.in == In::json ? "JSON" : "CSV and JSON";
      report.csv.rows.push_back({group.rows, column.name, column.unit, in, column.place, column.help});
      Json& json = report.json["columns"].emplace_back();
      for (std::size_t i = 0; i < report.csv.columns.size(); ++i) {
        json[report.csv.columns[i]] = report.csv.rows.back()[i];
      }
    }
  }
  report.text = to_aligned(report.csv);
  return report;
}

Output::Output(const Options& options) : path_(options.text("output")), command_(options.command()) {
  const bool to_stdout = path_ == "-";
  const std::string extension = path_.extension().string();
  std::string name = extension == ".csv" ? "csv" : extension == ".json" ? "json" : "table";
  if (options.given("format")) {
    name = options.text("format");
  } else if (name == "table" && !extension.empty() && extension != ".txt") {
    throw InputError("--output " + path_.string() + ": expected a name that ends in .csv, .json or .txt, or --format");
  }
  if (to_stdout) {
    path_.clear();
  }
  format_ = static_cast<Format>(options.choice("format", name, {"table", "csv", "json"}));
  if (options.given("output") && !to_stdout) {
    if (path_.empty()) {
      throw InputError("--output: the name of the file is empty");
    }
    file_ = std::make_unique<OutputFile>(path_);
  }
}

void Output::append(std::string_view text) {
  if (file_) {
    file_->write(text);
  } else {
    std::cout << text << std::flush;
  }
}

void Output::finish() {
  if (file_) {
    file_->commit();
  }
}

Json Output::signed_answer(const Json& answer) const {
  Json json = answer.contains("schema") ? answer : versioned(answer);
  if (file_) {
    json["command"] = command_;
  }
  return json;
}

void Output::write(const Report& report) {
  switch (format_) {
    case Format::table:
      append(file_ ? report.text : for_terminal(report.text));
      break;
    case Format::csv:
      append(to_csv(report.csv));
      break;
    case Format::json:
      append(json_text(signed_answer(report.json)));
      break;
  }
  finish();
}

}  // namespace onchip
