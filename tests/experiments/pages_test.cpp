// SPDX-License-Identifier: Apache-2.0
// Pages whose commands print what stands there: blocks that begin with "$ ".
#include "tests/experiments/command.hpp"

#include <sstream>
#include <string>

using namespace onchip;

TEST_CASE("commands of the pages print what the pages say", "[fast]") {
  for (const char* page : {"README.md", "docs/accuracy.md", "docs/explore.md"}) {
    const Folder folder;
    std::filesystem::create_directory(folder / "build");
    std::filesystem::create_symlink(ONCHIP_COMMAND, folder / "build/onchip");
    std::filesystem::create_directory_symlink(ONCHIP_SOURCE_DIR "/experiments", folder / "experiments");
    std::istringstream lines(read(std::filesystem::path(ONCHIP_SOURCE_DIR) / page));
    std::string command, expected, toml;
    bool in_block = false, in_toml = false;
    int commands = 0;
    const auto finish = [&] {
      if (!command.empty()) {
        CAPTURE(page, command);
        const std::string out = (folder / "out").string();
        const std::string there = (folder / "").string();
        const std::string script = folder.write("command.sh", "cd '" + there + "' && " + command + "\n");
        std::system(("bash " + script + " >" + out + " 2>/dev/null").c_str());
        CHECK(read(out) == expected);
        ++commands;
      }
      command.clear();
      expected.clear();
    };
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```")) {
        finish();
        if (in_toml) {
          folder.write("chip.toml", toml);
        }
        in_toml = line == "```toml";
        in_block = line == "```console";
      } else if (in_block && line.starts_with("$ ")) {
        finish();
        command = line.substr(2);
      } else if (in_block) {
        expected += line + '\n';
      } else if (in_toml) {
        toml += line + '\n';
      }
    }
    CHECK(commands > 1);
  }
}
