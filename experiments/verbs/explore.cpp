// SPDX-License-Identifier: Apache-2.0
// The page in which the model itself runs (page/README.md): a copy of the one that was built with the command.
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/output_file.hpp"
#include "model/base/shipped.hpp"

#include <filesystem>
#include <iostream>

namespace onchip {
namespace {

std::vector<OptionGroup> explore_options() {
  return {option_group(
      "Explore", {{"output,o", "FILE", "Write the page to a file, whole or not at all; - is the standard output."}})};
}

int run_explore(const Options& options) {
  const std::string path = options.text("output");
  if (path.empty()) {
    throw InputError("expected a file, e.g. 'onchip explore -o onchip.html'");
  }
  const std::filesystem::path page = shipped_folder("page", "ONCHIP_PAGE", ONCHIP_PAGE_DIR).path / "onchip.html";
  if (!std::filesystem::exists(page)) {
    throw InputError(
        "this build has no page: CMake makes it where it finds Emscripten, esbuild, TypeScript and d3; "
        "-DONCHIP_PAGE=ON says what is missing");
  }
  InputFile file(page);
  if (path == "-") {
    std::cout << file.bytes();
  } else {
    write_file(path, file.bytes());
  }
  return 0;
}

}  // namespace

const Verb kExploreVerb{"explore",
                        "Write the page in which the model runs: one file, for any browser, without a server.",
                        "onchip explore -o onchip.html", explore_options, run_explore};

}  // namespace onchip
