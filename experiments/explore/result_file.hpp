// SPDX-License-Identifier: Apache-2.0
// A file of rows that grows in order, with a manifest beside it that says what it is a result of. Whatever ends the
// process, the same sweep goes on behind the last whole row:
//
//   1. the file is opened, or made, and locked, so that nobody else writes it
//   2. the manifest is put beside it under its name at once, never half-written
//   3. rows are appended in order; each begins with its number
//   4. at the end the manifest says that the sweep is done, and how many bytes the file has
#pragma once

#include "model/answer/json.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace onchip {

class ResultFile {
 public:
  // `header`: the first line, "" if the file has none. Throws InputError where the file cannot be written, where
  // another process writes it, where it is no sweep's, and where it is another sweep's, with what differs. Only then is
  // anything changed.
  ResultFile(const std::filesystem::path& path, Json manifest, std::string header);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  std::uint64_t next_row() const { return next_row_; }  // the first that may be missing
  bool is_done() const { return is_done_; }
  Json state() const { return state_; }  // as checkpoint() left it; null: none

  void append(std::string_view rows);  // whole ones. Throws InputError, e.g. for a full disk: what is whole stays
  void clear();                        // of all rows
  void checkpoint(const Json& state);  // what a sweep goes on from whose rows are only written at the end
  void finish();
  void undo();  // what this process began it takes away again; what it found stays

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  bool read_manifest();
  void recover();
  void write_manifest() const;

  std::filesystem::path path_, manifest_path_;
  Json manifest_, state_;
  std::string header_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;  // of whole rows
  std::uint64_t next_row_ = 0;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
  bool is_done_ = false, is_new_ = false, has_new_manifest_ = false;
};

}  // namespace onchip
