// SPDX-License-Identifier: Apache-2.0
// A file that is either written whole or not at all: a temporary file beside it takes its name at the end. Whatever
// ends the process, the file that was there before stays.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace onchip {

class OutputFile {
 public:
  // Throws InputError where the file could not be written, before any long work. What a link points to is replaced, not
  // the link; what is no regular file, such as /dev/null, is written in place.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();  // without commit() nothing is left
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);  // is in the file, under the temporary name, when this returns
  // Takes its name; with `synced` it is on the disk before that.
  void commit(bool synced = true);

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_, temporary_;  // temporary_ is empty for what is no regular file
  std::string shown_name_;
  int descriptor_ = -1, slot_ = -1;
};

void write_file(const std::filesystem::path& path, std::string_view text);

// Writes all of it. False with errno.
bool write_all(int descriptor, std::string_view text);

// For programs: a signal that ends the process removes the temporary files first. Signals that are ignored stay so.
void remove_temporary_files_on_signals();

}  // namespace onchip
