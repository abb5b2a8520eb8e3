// SPDX-License-Identifier: Apache-2.0
// Completion for bash, zsh and fish, from the verbs and their options: 'onchip completion SHELL' prints a script.
#pragma once

#include <string>
#include <vector>

namespace onchip {

int print_completion(const std::vector<std::string>& shell);

}  // namespace onchip
