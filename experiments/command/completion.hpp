// SPDX-License-Identifier: Apache-2.0
// Completion for bash, zsh and fish, from the verbs and their options: 'onchip completion SHELL' prints a script.
#pragma once

#include "experiments/command/options.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

int print_completion(const std::vector<std::string>& shell);

// A verb asked for its part of the script, by this option and the shell's name, prints it instead of running.
inline constexpr std::string_view kCompletionOption = "--completion";
std::string completion_part(const std::string& shell, const Verb& verb, const OptionGroup& options);

}  // namespace onchip
