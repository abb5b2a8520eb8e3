// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace onchip {

int run_program(std::vector<std::string> words, const std::filesystem::path& output, bool errors_too) {
  std::vector<char*> arguments;
  std::ranges::transform(words, std::back_inserter(arguments), [](std::string& word) { return word.data(); });
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (errors_too) {
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t process = 0;
  int status = 127;
  if (::posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ) == 0) {
    ::waitpid(process, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 127;
  }
  ::posix_spawn_file_actions_destroy(&actions);
  return status;
}

}  // namespace onchip
