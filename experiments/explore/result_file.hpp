// SPDX-License-Identifier: Apache-2.0
// A file of rows that grows in order, with a manifest beside it that says what it is a result of. Whatever ends the
// process, the same sweep goes on behind the last whole row:
//
//   1. the file is opened, or made, and locked, so that nobody else writes it
//   2. the manifest is put beside it under its name at once, never half-written
//   3. rows are appended in order; each begins with its number
//   4. at the end the manifest says that the sweep is done, and how many bytes the file has
#pragma once

#include "experiments/measurement/manifest.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace onchip {

class ResultFile {
 public:
  // `header`: the first line, "" if the file has none. Throws InputError where the file cannot be written, where
  // another process writes it, where it is no sweep's, and where it is another sweep's, with what differs. Only then is
  // anything changed.
  ResultFile(const std::filesystem::path& path, Json manifest, std::string header)
      : path_(path), manifest_path_(manifest_path(path)), manifest_(std::move(manifest)), header_(std::move(header)) {
    std::error_code problem;
    if (std::filesystem::exists(path_, problem) && !std::filesystem::is_regular_file(path_, problem)) {
      fail("it is not a regular file");
    }
    const bool made = !std::filesystem::exists(path_, problem);
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      fail(std::strerror(errno));
    }
    try {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        fail(errno == EWOULDBLOCK ? "another process is writing it" : std::strerror(errno));
      }
      is_new_ = made;
      if (!read_manifest()) {
        is_new_ = has_new_manifest_ = true;
        write_manifest();
      }
      recover();
    } catch (...) {
      if (made) {
        undo();
      }
      ::close(descriptor_);
      throw;
    }
  }

  ~ResultFile() {
    ::fdatasync(descriptor_);
    ::close(descriptor_);
  }

  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  std::uint64_t next_row() const { return next_row_; }  // the first that may be missing
  bool is_done() const { return is_done_; }
  Json state() const { return state_; }  // as checkpoint() left it; null: none

  // whole ones. Throws InputError, e.g. for a full disk: what is whole stays
  void append(std::string_view rows) {
    if (!write_all(descriptor_, rows)) {
      const std::string reason = std::strerror(errno);
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) {
        ::lseek(descriptor_, 0, SEEK_END);
      }
      fail(reason + "; the rows so far are whole, and the same command goes on behind them");
    }
    size_ += rows.size();
    constexpr std::chrono::seconds kBetween(1);  // at most so much is lost where the machine itself stops
    if (const auto now = std::chrono::steady_clock::now(); now > synced_ + kBetween) {
      sync();
      synced_ = now;
    }
  }

  // of all rows
  void clear() {
    if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0) {
      fail(std::strerror(errno));
    }
    size_ = next_row_ = 0;
    append(header_);
  }

  // what a sweep goes on from whose rows are only written at the end
  void checkpoint(const Json& state) {
    state_ = state;
    write_manifest();
  }

  void finish() {
    sync();
    is_done_ = true;
    state_ = Json();
    write_manifest();
  }

  // what this process began it takes away again; what it found stays
  void undo() {
    if (is_new_) {
      ::unlink(path_.c_str());
      if (has_new_manifest_) {
        ::unlink(manifest_path_.c_str());
      }
    }
  }

 private:
  // Rows in a file that has lost its name are lost with it.
  void sync() const {
    struct stat open_file {
    }, named{};
    if (::fdatasync(descriptor_) != 0 || ::fstat(descriptor_, &open_file) != 0) {
      fail(std::strerror(errno));
    }
    if (::stat(path_.c_str(), &named) != 0 || named.st_dev != open_file.st_dev || named.st_ino != open_file.st_ino) {
      fail("it was removed or replaced while rows were written");
    }
  }

  // The number that a row begins with: "17,..." or {"row": 17, ...}.
  static std::optional<std::uint64_t> row_number(std::string_view line) {
    constexpr std::string_view kJson = "{\"row\": ";
    line.remove_prefix(line.starts_with(kJson) ? kJson.size() : 0);
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number);
    const bool is_row = problem == std::errc{} && end != line.data() + line.size() && *end == ',' &&
                        line.find('\0') == std::string_view::npos;
    return is_row ? std::optional(number) : std::nullopt;
  }

  // Where two manifests differ first: "spec.fixed.batch is 8, in the file 4".
  static std::string difference(const Json& mine, const Json& of_file) {
    const Json patch = Json::diff(of_file, mine);
    if (patch.empty()) {
      return "";
    }
    const Json& first = patch[0];
    std::string place = first["path"];
    const std::string there = first["op"] == "add" ? "left out" : of_file[Json::json_pointer(place)].dump();
    place.erase(0, 1);
    std::ranges::replace(place, '/', '.');
    return place + " is " + (first.contains("value") ? first["value"].dump() : "left out") + ", in the file " + there;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw InputError(path_.string() + ": cannot write the file: " + reason);
  }

  // False if there is none.
  bool read_manifest() {
    const std::string name = path_.filename().string(), manifest_name = manifest_path_.filename().string();
    if (!std::filesystem::exists(manifest_path_)) {
      if (std::filesystem::file_size(path_) > 0) {
        throw InputError(path_.string() + ": there is such a file, but no sweep's (it has no " + manifest_name +
                         "): move it away, or choose another name");
      }
      return false;
    }
    Json of_file = parse_json(InputFile(manifest_path_).bytes(), manifest_path_.string());
    if (!of_file.is_object() || !of_file.contains("spec")) {
      throw InputError(manifest_path_.string() +
                       ": there is such a file, but no sweep's: move it away, or choose another name");
    }
    is_done_ = of_file.value("done", Json()) == std::filesystem::file_size(path_);  // else something took rows away
    state_ = of_file.value("state", Json());
    of_file.erase("done");
    of_file.erase("state");
    if (const std::string differs = difference(manifest_, of_file); !differs.empty()) {
      throw InputError(path_.string() + " is of another sweep: " + differs + "; choose another name, or remove " +
                       name + " and " + manifest_name);
    }
    return true;
  }

  // Cuts off what is no whole row, and finds where to go on.
  void recover() {
    struct stat status {};
    ::fstat(descriptor_, &status);
    const auto bytes = static_cast<std::size_t>(status.st_size);
    constexpr std::size_t kTail = 1 << 20;  // longer than any row
    const std::size_t begin = bytes > kTail ? bytes - kTail : 0;
    std::string tail(bytes - begin, '\0');
    std::string start(std::min(bytes, header_.size()), '\0');
    if (::pread(descriptor_, tail.data(), tail.size(), static_cast<off_t>(begin)) !=
            static_cast<ssize_t>(tail.size()) ||
        ::pread(descriptor_, start.data(), start.size(), 0) != static_cast<ssize_t>(start.size())) {
      fail(std::strerror(errno));
    }
    if (!header_.starts_with(start)) {
      throw InputError(path_.string() +
                       ": the first line is not that of this sweep: move it away, or choose another name");
    }
    std::size_t end = tail.size();
    while (end > 0) {
      const std::size_t last = tail.rfind('\n', end - 1);
      if (last == std::string::npos) {
        end = 0;
        break;
      }
      const std::size_t before = last == 0 ? std::string::npos : tail.rfind('\n', last - 1);
      const std::size_t first = before == std::string::npos ? 0 : before + 1;
      if (const auto row = row_number(std::string_view(tail).substr(first, last - first))) {
        next_row_ = *row + 1;
        end = last + 1;
        break;
      }
      end = first;
    }
    size_ = next_row_ > 0 ? begin + end : 0;
    if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0) {
      fail(std::strerror(errno));
    }
    if (size_ == 0) {
      append(header_);
    }
  }

  void write_manifest() const {
    Json json = manifest_;
    if (!state_.is_null()) {
      json["state"] = state_;
    }
    if (is_done_) {
      json["done"] = size_;
    }
    write_file(manifest_path_, json_text(json));
  }

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
