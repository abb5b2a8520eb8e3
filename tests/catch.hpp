// SPDX-License-Identifier: Apache-2.0
// Catch2 2.13 and 3 under one name. Keep to what both have: TEST_CASE, SECTION, GENERATE, CAPTURE, REQUIRE_THAT with
// Catch::Matchers::WithinRel and WithinAbs. No Approx: in version 2 Catch::Approx is the matcher for vectors.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
