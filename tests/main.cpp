// SPDX-License-Identifier: Apache-2.0
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER  // version 2 is a header only
#endif
#include "tests/catch.hpp"

int main(int argument_count, char** arguments) {
  return Catch::Session().run(argument_count, arguments);
}
