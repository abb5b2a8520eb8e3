// SPDX-License-Identifier: Apache-2.0
// Where an answer goes and in which form: the standard output or a file, as a table, CSV or JSON.
#pragma once

#include "experiments/command/options.hpp"
#include "model/answer/columns.hpp"
#include "model/answer/json.hpp"
#include "model/base/output_file.hpp"
#include "model/base/table.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace onchip {

// The same answer in its three forms.
struct Report {
  std::string text;  // the table format
  Table csv;
  Json json;  // an object
};

// What columns mean, as an answer of its own.
Report explain(std::span<const ColumnGroup> groups);

enum class Format { table, csv, json };

// --format and -o, as output_options() declares them.
class Output {
 public:
  explicit Output(const Options& options);

  Format format() const { return format_; }
  const std::filesystem::path& path() const { return path_; }  // empty: the standard output

  void write(const Report& report);  // all of it; then the file is there
  // With the version and, in a file, which may be found without it, the command.
  Json signed_answer(const Json& answer) const;
  // The same in pieces, for output that grows during long work.
  void append(std::string_view text);
  void finish();

 private:
  Format format_ = Format::table;
  std::filesystem::path path_;
  std::string command_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace onchip
