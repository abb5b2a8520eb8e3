// SPDX-License-Identifier: Apache-2.0
// Where an answer goes and in which form: the standard output or a file, as a table, CSV or JSON.
#pragma once

#include "experiments/command/options.hpp"
#include "model/answer/columns.hpp"
#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <filesystem>
#include <fstream>
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

// A file that is either written whole or not at all: a temporary file beside it takes its name at the end. Opening
// throws InputError where the file could not be written, before any long work.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);  // is on the disk, under the temporary name, when this returns
  void commit();

 private:
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path path_, temporary_;  // temporary_ is empty for what is no regular file (/dev/null)
  std::string shown_name_;
  std::ofstream stream_;
  bool committed_ = false;
};

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
