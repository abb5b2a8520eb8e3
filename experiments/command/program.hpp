// SPDX-License-Identifier: Apache-2.0
// Programs that verbs run: scripts that draw and measure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace onchip {

// The exit status of a program, by its path and arguments, whose output goes to a file, and its errors too or to ours;
// 127 if it cannot be run.
int run_program(std::vector<std::string> words, const std::filesystem::path& output, bool errors_too);

}  // namespace onchip
