// SPDX-License-Identifier: Apache-2.0
// The files of sweeps survive whatever ends a process, and go on only with what they are of.
#include "model/base/output_file.hpp"
#include "tests/experiments/explore/sweeps.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>

using namespace onchip;

namespace {

int shell(const std::string& script) {
  const int status = std::system(("bash -c '" + script + "' >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
std::string escaped(std::string text) {  // within '...'
  for (std::size_t place = 0; (place = text.find('\'', place)) != std::string::npos; place += 4) {
    text.replace(place, 1, "'\\''");
  }
  return text;
}

}  // namespace

TEST_CASE("a file goes on only with the sweep that it is of", "[fast]") {
  const Folder folder;
  const std::string file = (folder / "out.csv").string();
  const std::string axes = "sweep --axis hidden=64,128 -o " + file + " ";
  REQUIRE(run(axes).status == 0);
  const std::string bytes = read(file);
  const Run again = run(axes);
  CHECK(again.status == 0);
  CHECK(says(again.err, "with all its rows"));
  // Something took rows away: they come back.
  for (const std::size_t left : {bytes.size() - 3, bytes.find('\n') + 1, std::size_t{7}, std::size_t{0}}) {
    std::ofstream(file, std::ios::binary) << bytes.substr(0, left);
    CHECK(run(axes).status == 0);
    CHECK(read(file) == bytes);
  }
  std::filesystem::remove(file);
  CHECK(run(axes).status == 0);
  CHECK(read(file) == bytes);
  require_refusal(axes + "--batch 5", "spec.fixed.batch is \"5\", in the file \"4\"");
  require_refusal(axes + "--set sm.count=7", "spec.fixed.sm.count");
  require_refusal(axes + "--axis steps=1,2", "spec.axes");
  require_refusal("sweep --axis hidden=64,129 -o " + file, "spec.axes.0.hidden.last is \"129\", in the file \"128\"");
  // The same chip's name with another number in it, and another version.
  std::filesystem::create_directory(folder / "chips");
  std::string chip = read(std::filesystem::path(ONCHIP_CHIPS_DIR) / "h200.toml");
  chip.replace(chip.find("value = 132"), 11, "value = 131");
  folder.write("chips/h200.toml", chip);
  require_refusal(axes, "chips.h200 is", "ONCHIP_CHIPS=" + (folder / "chips").string());
  std::string manifest = read(folder / "out.manifest.json");
  manifest.replace(manifest.find("\"onchip\": \"") + 11, 1, "9");
  folder.write("out.manifest.json", manifest);
  require_refusal(axes, "onchip is ");
  CHECK(read(file) == bytes);
  folder.write("other.csv", "a,b\n1,2\n");
  require_refusal("sweep --axis hidden=64,128 -o " + (folder / "other.csv").string(), "no sweep's");
  folder.write("third.manifest.json", "{}");
  require_refusal("sweep --axis hidden=64,128 -o " + (folder / "third.csv").string(), "no sweep's");
  CHECK(!std::filesystem::exists(folder / "third.csv"));
}

TEST_CASE("Ctrl-C keeps whole rows and says what goes on", "[fast]") {
  const Folder folder;
  const std::string whole = (folder / "whole.csv").string(), file = (folder / "it's.csv").string();
  REQUIRE(run(kLonger + " -o " + whole).status == 0);
  const std::string command = "\"" ONCHIP_COMMAND "\" " + kLonger + " --threads 1 -o \"" + file + "\"";
  const std::string err = (folder / "err").string();
  const int status = std::system(("bash -c '" + escaped(command) + " 2>" + err + " & p=$!; until grep -q rows " + err +
                                  "; do sleep 0.01; done; kill -INT $p; wait $p'")
                                     .c_str());
  REQUIRE(WIFEXITED(status));
  const std::string said = read(err);
  CAPTURE(said);
  REQUIRE(WEXITSTATUS(status) == 130);
  CHECK(read(file).size() < read(whole).size());
  CHECK(read(file).ends_with('\n'));
  const std::size_t line = said.find("\n  ");
  REQUIRE(line != std::string::npos);
  // One command at a time writes the file.
  const std::string resumes = folder.write("resume.sh", said.substr(line + 3));
  CHECK(std::system(("sh " + resumes + " 2>" + err).c_str()) == 0);
  CHECK(says(read(err), "on from row"));
  CHECK(read(file) == read(whole));
}

TEST_CASE("rows whose file is removed or replaced while they are written are an error", "[fast]") {
  const Folder folder;
  const std::string file = (folder / "out.csv").string(), err = (folder / "err").string();
  for (const std::string& meanwhile : {"rm " + file, "mv " + file + " " + file + ".old; echo > " + file}) {
    const std::string command = "\"" ONCHIP_COMMAND "\" " + kLonger + " --threads 1 -o " + file;
    CHECK(shell(escaped(command) + " 2>" + err + " & p=$!; until [ -s " + file + " ]; do sleep 0.01; done; " +
                meanwhile + "; wait $p") == 2);
    CHECK(says(read(err), "it was removed or replaced while rows were written"));
    CHECK(!says(read(folder / "out.manifest.json"), "done"));
    std::filesystem::remove(file);
  }
}

TEST_CASE("whatever ends a command, the file that was there stays, and nothing is in the way of the next", "[fast]") {
  const Folder folder;
  const std::string file = folder.write("answer.json", "before");
  const auto killed_by = [&](int signal) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::signal(signal, SIG_DFL);  // not the test program's own handler
      remove_temporary_files_on_signals();
      OutputFile output(file);
      output.write("half of it");
      ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(process, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(read(file) == "before");
    return folder.entries();
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CHECK(killed_by(signal) == 1);
  }
  CHECK(killed_by(SIGKILL) == 2);
  CHECK(run("predict --hidden 64 -o " + file).status == 0);
  CHECK(Json::parse(read(file)).contains("step_us"));
  CHECK(folder.entries() == 2);
}

TEST_CASE("two sweeps do not write one file", "[fast]") {
  const Folder folder;
  const std::string file = (folder / "out.csv").string();
  const std::string err = (folder / "err").string();
  const std::string command = "\"" ONCHIP_COMMAND "\" " + kLonger + " --threads 1 -o \"" + file + "\"";
  CHECK(shell(escaped(command) + " & p=$!; until [ -e " + file + " ]; do sleep 0.01; done; " + escaped(command) +
              " 2>" + err + "; s=$?; wait $p || exit 7; exit $s") == 2);
  CHECK(says(read(err), "another process is writing it"));
}

// Ten in all; ONCHIP_KILLS=200 for more.
TEST_CASE("whatever ends a sweep, it goes on to the same bytes", "[fast]") {
  const Folder folder;
  const char* wanted = std::getenv("ONCHIP_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 10;
  const std::string whole = (folder / "whole.csv").string(), whole_front = (folder / "whole_front.csv").string();
  const std::string front = " --keep-front step_us,batch:max";
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run(kMany + " -o " + whole).status == 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  REQUIRE(run(kMany + front + " -o " + whole_front).status == 0);
  std::mt19937 draw(static_cast<unsigned>(kills));
  int ended = 0;
  for (int i = 0; i < kills; ++i) {
    const bool of_front = i % 5 == 4;
    const std::string name = "k" + std::to_string(i);
    const std::string file = (folder / (name + ".csv")).string();
    const std::string command = "\"" ONCHIP_COMMAND "\" " + kMany + (of_front ? front : "") + " --threads 2 -o " + file;
    const std::string wait = std::to_string(seconds * (0.05 + 0.0009 * static_cast<double>(draw() % 1000)));
    CAPTURE(i, command, wait);
    int status = 0;
    if (i % 5 == 3) {  // the disk is full
      status = shell("ulimit -f " + std::to_string(1 + draw() % (read(whole).size() / 1024)) + "; " + escaped(command));
      CHECK(status == 2);
      CHECK((read(file).empty() || read(file).ends_with('\n')));
#ifdef ONCHIP_HAS_MPI
    } else if (i % 5 == 2) {  // one of four ranks; now and then mpirun itself then waits for ever
      status =
          shell(kMpirun + " " + escaped(command) + " & p=$!; sleep " + wait + "; c=($(pgrep -P $p)); kill -9 ${c[" +
                std::to_string(draw() % 4) + "]}; (sleep 20; kill -9 $p) & w=$!; wait $p; s=$?; kill $w; exit $s");
#endif
    } else {
      status = shell(escaped(command) + " & p=$!; sleep " + wait + "; kill -9 $p; wait $p");
    }
    ended += status != 0 ? 1 : 0;
    const Run resumed = run(kMany + (of_front ? front : "") + " --threads 1 -o " + file);
    CAPTURE(resumed.err);
    CHECK(resumed.status == 0);
    CHECK((read(file) == read(of_front ? whole_front : whole)));
    CHECK((read(folder / (name + ".manifest.json")) ==
           read(folder / (of_front ? "whole_front.manifest.json" : "whole.manifest.json"))));
    std::filesystem::remove(file);
  }
  CHECK(ended > kills / 2);
}
