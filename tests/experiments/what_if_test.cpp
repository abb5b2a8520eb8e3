// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/progress.hpp"
#include "tests/experiments/command.hpp"

#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <thread>

using namespace onchip;

TEST_CASE("no two rows of a comparison have the same name", "[fast]") {
  const Run result = run("what-if --hidden 512 --set sm.count=x2 --no-ranking");
  REQUIRE(result.status == 0);
  CHECK(result.out.find("10 % more of") == std::string::npos);
  std::istringstream lines(result.out);
  std::set<std::string> labels;
  std::string line;
  for (bool in_table = false; std::getline(lines, line);) {
    in_table |= line.find("change %") != std::string::npos;
    if (in_table && line.empty()) {
      break;
    }
    if (in_table) {
      CAPTURE(line);
      CHECK(labels.insert(line.substr(0, line.find("  ", 2))).second);
    }
  }
  CHECK(labels.count("l2 (bytes)") == 1);
  CHECK(labels.count("shared_memory (bytes per SM)") == 1);
}

TEST_CASE("the ranking of numbers may be left out", "[fast]") {
  CHECK(run_json("what-if --hidden 512").at("sensitivity").size() > 5);
  CHECK_FALSE(run_json("what-if --hidden 512 --no-ranking").contains("sensitivity"));
}

TEST_CASE("answers of yes and no are words in CSV", "[fast]") {
  for (const auto& [question, answer] : {std::pair{"fit --hidden 512", ",true,"}, {"fit --hidden 20000", ",false,"}}) {
    CHECK(run(std::string(question) + " --format csv").out.find(answer) != std::string::npos);
  }
}

TEST_CASE("a terminal sees from the first second on that work goes on", "[fast]") {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(child >= 0);
  if (child == 0) {
    {
      const Waiting waiting("seeking");
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    ::_exit(0);
  }
  std::string seen;
  char buffer[4096];
  for (ssize_t got; (got = ::read(terminal, buffer, sizeof buffer)) > 0;) {
    seen.append(buffer, static_cast<std::size_t>(got));
  }
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  CHECK(seen.find("seeking: 1 s") != std::string::npos);
  CHECK(seen.ends_with("\r\033[K"));  // and is gone at the end
}
