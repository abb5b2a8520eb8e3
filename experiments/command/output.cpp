// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/output.hpp"

#include "experiments/command/terminal.hpp"
#include "model/base/error.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <iostream>

namespace onchip {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), shown_name_(path.string()) {
  std::error_code problem;
  if (const auto target = std::filesystem::canonical(path, problem); !problem) {
    path_ = target;  // the file that a link points to, not the link, is replaced
  }
  if (std::filesystem::is_directory(path_, problem)) {
    fail("it is a directory");
  }
  if (std::filesystem::exists(path_, problem)) {
    if (::access(path_.c_str(), W_OK) != 0) {
      fail(std::strerror(errno));
    }
    if (!std::filesystem::is_regular_file(path_, problem)) {
      stream_.open(path_, std::ios::binary);
      return;
    }
  }
  const std::filesystem::path temporary =
      path_.parent_path() / ("." + path_.filename().string() + "." + std::to_string(::getpid()) + ".tmp");
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    fail(std::strerror(errno));
  }
  ::close(descriptor);
  temporary_ = temporary;
  stream_.open(temporary_, std::ios::binary);
}

OutputFile::~OutputFile() {
  if (!committed_ && !temporary_.empty()) {
    stream_.close();
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }
}

void OutputFile::fail(const std::string& reason) const {
  throw InputError(shown_name_ + ": cannot write the file: " + reason);
}

void OutputFile::write(std::string_view text) {
  if (!stream_.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
    fail(std::strerror(errno));
  }
}

void OutputFile::commit() {
  stream_.close();
  if (!stream_) {
    fail(std::strerror(errno));
  }
  if (!temporary_.empty()) {
    std::error_code problem;
    std::filesystem::rename(temporary_, path_, problem);
    if (problem) {
      fail(problem.message());
    }
  }
  committed_ = true;
}

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
