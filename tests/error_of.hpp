// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/base/error.hpp"

#include <string>

namespace onchip {

// What a call throws of these errors.
template <typename Error = InputError, typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace onchip
