// SPDX-License-Identifier: Apache-2.0
#include "model/base/output_file.hpp"

#include "model/base/error.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

namespace onchip {
namespace {

// Names of temporary files that a signal removes; null: free. More than these at once are left to the next clean-up.
std::array<std::atomic<const char*>, 64> temporary_names{};
static_assert(std::atomic<const char*>::is_always_lock_free);

int take_slot(const char* name) {
  for (std::size_t i = 0; i < temporary_names.size(); ++i) {
    const char* free = nullptr;
    if (temporary_names[i].compare_exchange_strong(free, name)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
  return true;
}

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), shown_name_(path.string()) {
  std::error_code none;
  if (const auto target = std::filesystem::canonical(path, none); !none) {
    path_ = target;
  }
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode) || ::access(path_.c_str(), W_OK) != 0) {
      fail(S_ISDIR(status.st_mode) ? EISDIR : errno);
    }
    if (!S_ISREG(status.st_mode)) {
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
      if (descriptor_ < 0) {
        fail(errno);
      }
      return;
    }
  }
  // A name of its own, as mkstemp() makes it, which would not heed the umask: what a killed process left is no
  // obstacle.
  std::random_device random;
  do {
    std::array<char, 32> name;
    std::snprintf(name.data(), name.size(), ".onchip.%08x%08x.tmp", random(), random());
    temporary_ = path_.parent_path() / name.data();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    fail(errno);
  }
  slot_ = take_slot(temporary_.c_str());
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }
  if (slot_ >= 0) {
    temporary_names[static_cast<std::size_t>(slot_)] = nullptr;
  }
}

void OutputFile::fail(int error) const {
  throw InputError(shown_name_ +
                   ": cannot write the file: " + (error == EISDIR ? "it is a directory" : std::strerror(error)));
}

void OutputFile::write(std::string_view text) {
  if (!write_all(descriptor_, text)) {
    fail(errno);
  }
}

void OutputFile::commit(bool synced) {
  if (!temporary_.empty() &&
      ((synced && ::fsync(descriptor_) != 0) || std::rename(temporary_.c_str(), path_.c_str()) != 0)) {
    fail(errno);
  }
  ::close(std::exchange(descriptor_, -1));
}

void remove_temporary_files_on_signals() {
  struct sigaction remove {};
  remove.sa_handler = [](int signal) {
    for (const auto& name : temporary_names) {
      if (const char* const file = name.load()) {
        ::unlink(file);
      }
    }
    ::raise(signal);  // as if there were no handler
  };
  remove.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
      ::sigaction(signal, &remove, nullptr);
    }
  }
}

}  // namespace onchip
