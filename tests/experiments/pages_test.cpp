// SPDX-License-Identifier: Apache-2.0
// Pages whose commands print what stands there: blocks that begin with "$ ", run one after another in a folder where
// build/ has the command; what a toml block holds is chip.toml. With ONCHIP_RENEW_PAGES=1 they are written anew.
#include "tests/experiments/command.hpp"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

using namespace onchip;

namespace {

const std::filesystem::path kSources = ONCHIP_SOURCE_DIR;

// The page, as its commands print it now.
std::string printed_page(const std::string& page) {
  const Folder folder;
  std::filesystem::create_directory(folder / "build");
  std::filesystem::create_symlink(ONCHIP_COMMAND, folder / "build/onchip");
  std::filesystem::create_directory_symlink(kSources / "experiments", folder / "experiments");
  const std::string there = (folder / "").string(), out = (folder / "out").string();
  std::istringstream lines(page);
  std::string printed, toml, block;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      if (block == "```toml") {
        folder.write("chip.toml", toml);
      }
      block = block.empty() ? line : "";
      toml.clear();
    } else if (block == "```toml") {
      toml += line + '\n';
    } else if (block == "```console") {
      if (line.starts_with("$ ")) {
        const std::string script = folder.write("command.sh", "cd '" + there + "' && " + line.substr(2) + "\n");
        std::system(("bash " + script + " >" + out + " 2>/dev/null").c_str());
        printed += line + '\n' + read(out);
      }
      continue;
    }
    printed += line + '\n';
  }
  return printed;
}

// Every command in a page's text and blocks that begins with the program's name.
std::vector<std::string> commands_of(const std::string& page) {
  std::vector<std::string> commands;
  const auto add = [&](std::string text) {
    for (const char* name : {"build/onchip ", "onchip "}) {
      if (text.starts_with(name)) {
        text = text.substr(std::string(name).size());
        commands.push_back(text.substr(0, text.find_first_of("|#>;\\")));
        return;
      }
    }
  };
  std::istringstream lines(page);
  std::string prose;
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = !in_block;
    } else if (in_block) {
      add(line.substr(line.starts_with("$ ") ? 2 : 0));
    } else {
      prose += line + ' ';
    }
  }
  bool in_span = false;
  std::istringstream spans(prose);
  for (std::string span; std::getline(spans, span, '`'); in_span = !in_span) {
    if (in_span) {
      add(span);
    }
  }
  return commands;
}

}  // namespace

TEST_CASE("commands of the pages print what the pages say", "[fast][long]") {
  for (const char* name :
       {"README.md", "docs/accuracy.md", "docs/tutorial.md", "docs/explore.md", "docs/add-a-chip.md"}) {
    CAPTURE(name);
    const std::string page = read(kSources / name), printed = printed_page(page);
    if (std::getenv("ONCHIP_RENEW_PAGES") != nullptr) {
      std::ofstream(kSources / name) << printed;
      continue;
    }
    CHECK(printed == page);
    CHECK(says(page, "\n$ build/onchip "));
  }
}

TEST_CASE("commands that the pages name have the verbs and options that they are given", "[fast]") {
  std::vector<std::filesystem::path> pages{kSources / "README.md", kSources / "kernels/README.md",
                                           kSources / "sim/README.md", kSources / "experiments/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kSources / "docs")) {
    if (entry.path().extension() == ".md") {
      pages.push_back(entry.path());
    }
  }
  std::size_t found = 0;
  for (const auto& page : pages) {
    for (const std::string& command : commands_of(read(page))) {
      const Run asked = run(command + (!says(command, "--help") ? " --help" : ""));
      CAPTURE(page.string(), command, asked.err);
      CHECK(asked.status == 0);
      ++found;
    }
  }
  CHECK(found > 50);
}
