// SPDX-License-Identifier: Apache-2.0
// onchip report: results as one HTML page, to be carried into a meeting.
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/page/page.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <iostream>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup report_options() {
  OptionGroup group = option_group("Report");
  const auto texts = [](const char* name) {
    return po::value<std::vector<std::string>>()->composing()->value_name(name);
  };
  // clang-format off
  group.add_options()
      ("files", texts("FILE"),
       "Show these: the .json of any verb, .csv or .jsonl of rows, figures of plots/ as .svg; bare words are files, too.")
      ("command", texts("TEXT"), "Say that this command made the files, where they do not say it; repeatable.")
      ("output,o", text_option("FILE"), "Write to a file, whole or not at all, instead of the standard output.");
  // clang-format on
  return group;
}

}  // namespace

int run_report(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(verb, arguments, {report_options()}, "files");
  if (!options) {
    return 0;
  }
  std::vector<Result> results;
  std::vector<std::string> commands = options->list("command");
  const std::vector<std::string> files = options->list("files");
  if (files.empty()) {
    throw InputError("expected files, e.g. 'onchip report sweep.csv front.json -o report.html'");
  }
  std::ranges::transform(files, std::back_inserter(results), read_result);
  commands.push_back(command_line("onchip", verb, files));  // the same whatever the page is called
  const std::string path = options->text("output");
  std::unique_ptr<OutputFile> file;
  if (!path.empty() && path != "-") {
    file = std::make_unique<OutputFile>(path);
  }
  const std::string page = report_html(results, commands);
  if (file) {
    file->write(page);
    file->commit();
  } else {
    std::cout << page;
  }
  return 0;
}

}  // namespace onchip
