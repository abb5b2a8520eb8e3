// SPDX-License-Identifier: Apache-2.0
// What `register_limits` does, verb by verb (main.cpp). Each returns the exit status; bad input is an InputError.
#pragma once

#include <string>
#include <vector>

namespace onchip::registers {

int print_shapes(int number);
int print_domain(const std::vector<std::string>& known_limits);
int measure(const std::string& shapes, const std::string& part, const std::vector<std::string>& architectures);
int print_table(const std::vector<std::string>& limits);
int score(const std::vector<std::string>& limits);
int fit(const std::string& limits);
int check_fresh(int number, unsigned seed);
int print_missing(int number, unsigned seed, const std::vector<std::string>& known_limits);
int check_picks(const std::string& configurations);

}  // namespace onchip::registers
