// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/significant_text.hpp"

#include "tests/catch.hpp"

#include <string>
#include <vector>

namespace onchip {
namespace {

std::string text_of(std::string_view source, const std::vector<std::string>& defines = {}) {
  return significant_text(source, defines);
}

TEST_CASE("comments, indentation and empty lines make no difference to a kernel's fingerprint", "[fast]") {
  CHECK(text_of("// Doc.\n\nint a;  // what it is\n  int b;\n") == "int a;\nint b;\n");
  CHECK(text_of("int a;") == "int a;\n");
  CHECK(text_of("asm(\"a // b\"); // c\n") == "asm(\"a // b\");\n");
  CHECK(text_of(R"(asm("a \" // b");)") == R"(asm("a \" // b");)"
                                           "\n");
  CHECK(text_of("int a;\n") != text_of("int b;\n"));
  CHECK(text_of("").empty());
}

TEST_CASE("of a conditional, a fingerprint has the branch that is compiled", "[fast]") {
  const std::string source = "a\n#if N == 3\nb\n#else\nc\n#endif\nd\n";
  CHECK(text_of(source, {"N=3"}) == "a\nb\nd\n");
  CHECK(text_of(source, {"M=3", "N=4"}) == "a\nc\nd\n");
  CHECK(text_of(source) == source);
  CHECK(text_of("#if N != 3\nb\n#endif\n", {"N=3"}).empty());
  CHECK(text_of("#ifdef N\nb\n#else\nc\n#endif\n", {"N"}) == "b\n");
  CHECK(text_of("#ifdef N\nb\n#else\nc\n#endif\n") == "c\n");
  CHECK(text_of("#ifndef N\nb\n#endif\n", {"N=0"}).empty());
}

TEST_CASE("conditionals nest, and those that cannot be resolved stay whole", "[fast]") {
  const std::string nested = "#ifdef N\n#if N == 1\na\n#else\nb\n#endif\nc\n#endif\n";
  CHECK(text_of(nested, {"N=1"}) == "a\nc\n");
  CHECK(text_of(nested, {"N=2"}) == "b\nc\n");
  CHECK(text_of(nested).empty());
  CHECK(text_of("#if N > 1\n#ifdef M\na\n#else\nb\n#endif\n#endif\n", {"N=2", "M"}) == "#if N > 1\na\n#endif\n");
  const std::string chain = "#if N == 1\na\n#elif N == 2\nb\n#else\nc\n#endif\n";
  CHECK(text_of(chain, {"N=1"}) == "a\n");
  CHECK(text_of(chain, {"N=2"}) != text_of(chain, {"N=1"}));
  CHECK(says(text_of(chain, {"N=2"}), "c\n"));
}

}  // namespace
}  // namespace onchip
