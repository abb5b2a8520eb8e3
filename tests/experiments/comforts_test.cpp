// SPDX-License-Identifier: Apache-2.0
// Help, completion, and what a terminal shows.
#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "tests/experiments/command.hpp"

#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace onchip;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// What bash offers behind these words; the last is being typed.
std::string offered(const Folder& folder, const std::string& words) {
  const std::string out = (folder / "offered").string(), script = (folder / "bash").string();
  const std::string code = "source " + script + "; COMP_WORDS=(" + words +
                           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _onchip; echo \"${COMPREPLY[@]}\"";
  REQUIRE(std::system(("bash -c '" + code + "' > " + out).c_str()) == 0);
  return read(out);
}

// As a terminal of 60 columns gets it.
std::string in_terminal(const std::string& arguments, const std::string& environment) {
  const Folder folder;
  const std::string out = (folder / "out").string();
  const std::string command = "env COLUMNS=60 TERM=xterm " + environment + " script -qec \"'" ONCHIP_COMMAND "' " +
                              arguments + "\" /dev/null > " + out + " 2>&1 < /dev/null";
  static_cast<void>(std::system(command.c_str()));
  return read(out);
}

}  // namespace

TEST_CASE("'help VERB' is 'VERB --help'", "[fast]") {
  CHECK(run("help fit").out == run("fit --help").out);
  CHECK(run("help").out == run("--help").out);
  CHECK(run("help").status == 0);
  const Run unknown = run("help predct");
  CHECK(unknown.status == 2);
  CHECK(unknown.err == "onchip: unknown verb 'predct'; did you mean 'predict'?\n");
}

TEST_CASE("shells complete verbs, options and values", "[fast]") {
  const Folder folder;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Run script = run(std::string("completion ") + shell);
    REQUIRE(script.status == 0);
    folder.write(shell, script.out);
    for (const Verb* verb : kVerbs) {
      CHECK(says(script.out, verb->name));
    }
    const std::string checked =
        std::string("command -v ") + shell + " >/dev/null || exit 0; " + shell + " -n " + (folder / shell).string();
    CHECK(std::system(checked.c_str()) == 0);
  }
  CHECK(offered(folder, "onchip wh") == "what-if\n");
  CHECK(offered(folder, "onchip help par") == "pareto\n");
  CHECK(offered(folder, "onchip fit --gran") == "--granule\n");
  CHECK(offered(folder, "onchip predict --gran") == "\n");
  CHECK(offered(folder, "onchip fit --chip h2") == "h200\n");
  CHECK(offered(folder, "onchip fit --cell = ls") == "lstm\n");
  CHECK(run("completion tcsh").err == "onchip: found 'tcsh': expected a shell: bash, zsh or fish\n");
}

TEST_CASE("explore writes the page of this build, or says that there is none", "[fast]") {
  const Folder folder;
  const std::string of_folder = "ONCHIP_PAGE=" + folder.path().string(), copy = (folder / "copy.html").string();
  require_refusal("explore", "expected a file, e.g. 'onchip explore -o onchip.html'");
  require_refusal("explore -o " + copy, "this build has no page", of_folder);
  folder.write("onchip.html", "<!DOCTYPE html>\n");
  CHECK(run("explore -o " + copy, of_folder).status == 0);
  CHECK(read(copy) == "<!DOCTYPE html>\n");
  CHECK(run("explore -o -", of_folder).out == "<!DOCTYPE html>\n");
}

TEST_CASE("lines that are wider than a terminal go on below their last column, word by word", "[fast]") {
  CHECK(wrapped("short\n\n  line\n", 20) == "short\n\n  line\n");
  CHECK(wrapped("key     one two three four five six seven\n", 24) ==
        "key     one two three\n        four five six\n        seven\n");
  CHECK(wrapped("a word-that-is-wider-than-all and more\n", 12) == "a word-that-is-wider-than-all\n    and more\n");
  CHECK(
      wrapped("chip      SMs  registers\nA          80        256\nB second    9         96\n", 19) ==
      "chip      SMs\nA          80\nB second    9\n\nchip      registers\nA               256\nB second         96\n");
  const std::string page = run("chips h200").out;
  for (const std::size_t columns : {40u, 60u, 80u, 100u}) {
    const std::string text = wrapped(page, columns);
    CHECK(words_of(text) == words_of(page));
    for (const std::string& line : lines_of(text)) {
      CAPTURE(columns, line);
      CHECK((line.size() <= columns || line.find(' ', line.find_first_not_of(' ')) == std::string::npos));
    }
  }
}

TEST_CASE("a terminal gets colours and its width, a pipe neither", "[fast]") {
  if (std::system("command -v script > /dev/null") != 0) {
    return;
  }
  const std::string question = "fit --hidden 30000 --density 10% 2>/dev/null";
  const std::string plain = run(question, "COLUMNS=60 TERM=xterm").out;
  CHECK(!says(plain, "\033"));
  CHECK(std::ranges::any_of(lines_of(plain), [](const std::string& line) { return line.size() > 60; }));
  CHECK(in_terminal(question, "NO_COLOR=").starts_with("\033[31mIt does not fit"));
  const std::string without = in_terminal(question, "NO_COLOR=1");
  CHECK(!says(without, "\033"));
  CHECK(words_of(without) == words_of(plain));
  for (const std::string& line : lines_of(without)) {
    CAPTURE(line);
    CHECK(line.size() <= 61);  // with the terminal's carriage return
  }
  for (const std::string& line : lines_of(in_terminal("help fit", ""))) {
    CHECK(line.size() <= 61);
  }
  CHECK(in_terminal("fit --hidden nothing", "NO_COLOR=").starts_with("\033[31monchip:\033[0m --hidden"));
}
