// SPDX-License-Identifier: Apache-2.0
// The `onchip` command. Exit status: 0 done, 1 the answer is no, 2 wrong usage or bad input.
#include "experiments/command/completion.hpp"
#include "experiments/command/ranks.hpp"
#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"
#include "model/base/output_file.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>

namespace {

using namespace onchip;

std::string help_text() {
  std::string text =
      "Which sparse recurrent network stays on this chip, how long does one step take, and what is the bottleneck?\n\n"
      "Usage: onchip VERB [options]\n\n";
  for (const Verb* verb : kVerbs) {
    text +=
        "  " + std::string(verb->name) + std::string(12 - verb->name.size(), ' ') + std::string(verb->sentence) + '\n';
  }
  return text +
         "\n'onchip help VERB' lists the options of a verb.\n"
         "Exit status: 0 done, 1 the answer is no, 2 wrong usage or bad input.\n";
}

int run(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::cerr << help_text();
    return 2;
  }
  if (arguments.front() == "help" && arguments.size() > 1) {  // help VERB is VERB --help
    arguments = {arguments[1], "--help"};
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    std::cout << for_terminal(help_text());
    return 0;
  }
  if (first == "--version") {
    std::cout << "onchip " << ONCHIP_VERSION << '\n';
    return 0;
  }
  if (first == "completion") {
    return print_completion({arguments.begin() + 1, arguments.end()});
  }
  const auto verb = std::ranges::find(kVerbs, first, &Verb::name);
  if (verb == kVerbs.end()) {
    std::vector<std::string_view> names{"help"};
    std::ranges::transform(kVerbs, std::back_inserter(names), &Verb::name);
    const std::string hint = did_you_mean(first, names);
    throw InputError("unknown verb " + in_quotes(first) + (hint.empty() ? "; 'onchip --help' lists the verbs" : hint));
  }
  return run_verb(**verb, {arguments.begin() + 1, arguments.end()});
}

}  // namespace

int main(int argument_count, char** arguments) {
#if defined(__GLIBC__)
  // Layers of large networks are made and dropped by the thousand; what one had, the next takes, without new pages.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no more is a failed write
  remove_temporary_files_on_signals();
  try {
    const int status = run({arguments + std::min(1, argument_count), arguments + argument_count});
    if (!std::cout.flush()) {
      throw InputError("cannot write to the standard output");
    }
    return status;
  } catch (const std::bad_alloc&) {
    std::cerr << "onchip: out of memory\n";
  } catch (const std::exception& error) {
    if (onchip::launched_rank() == 0) {  // what one process finds wrong, all do
      const std::string name = "onchip:";
      std::cerr << (takes_colour(STDERR_FILENO) ? coloured(name, Colour::red) : name) << ' ' << error.what() << '\n';
    }
  }
  return 2;
}
