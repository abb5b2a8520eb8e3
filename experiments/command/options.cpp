// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/options.hpp"

#include "experiments/command/plan_options.hpp"
#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/number.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/families/workload.hpp"
#include "model/plan/plan_text.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>

namespace onchip {
namespace {

namespace po = boost::program_options;

// What boost says of wrong usage, in this command's words.
[[noreturn]] void refuse(const Verb& verb, const po::error& error, const OptionGroup& all) {
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error)) {
    const std::string name = unknown->get_option_name();
    const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    const std::vector<std::string> names = names_of({all});
    std::string as_field = bare;
    std::ranges::replace(as_field, '-', '_');
    if (std::string today(new_name(as_field)); !today.empty()) {
      std::ranges::replace(today, '_', '-');
      throw InputError("unknown option " + in_quotes(name) + "; it is called '--" + today + "' now");
    }
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    std::string hint = did_you_mean(bare, candidates);
    if (const std::size_t quote = hint.find('\''); quote != std::string::npos) {
      hint.insert(quote + 1, "--");
    } else {
      hint = "; 'onchip " + std::string(verb.name) + " --help' lists the options";
    }
    throw InputError("unknown option " + in_quotes(name) + hint);
  }
  if (dynamic_cast<const po::too_many_positional_options_error*>(&error)) {
    throw InputError("'" + std::string(verb.name) + "' takes no argument without an option; 'onchip " +
                     std::string(verb.name) + " --help' lists the options");
  }
  throw InputError(error.what());
}

}  // namespace

OptionGroup option_group(const char* title, const std::vector<OptionRow>& options) {
  const std::size_t terminal = terminal_columns();
  const unsigned width = terminal == 0 ? 100 : static_cast<unsigned>(std::clamp<std::size_t>(terminal, 60, 100));
  OptionGroup group(title, width, width * 3 / 5);
  constexpr std::string_view kRepeatable = "...";
  for (const auto& [name, argument, help, by_default] : options) {
    const auto add = [&, &name = name, &help = help](const auto*... value) {
      group.add_options()(name.c_str(), value..., help.c_str());
    };
    if (argument.empty()) {
      add();
    } else if (argument.ends_with(kRepeatable)) {
      const std::string of_one = argument.substr(0, argument.size() - kRepeatable.size());
      add(po::value<std::vector<std::string>>()->composing()->value_name(of_one));
    } else {
      auto* const value = po::value<std::string>()->value_name(argument);
      add(by_default.empty() ? value : value->default_value(by_default));
    }
  }
  return group;
}

std::vector<std::string> names_of(const std::vector<OptionGroup>& groups) {
  std::vector<std::string> names;
  for (const OptionGroup& group : groups) {
    for (const auto& option : group.options()) {
      names.push_back(option->long_name());
    }
  }
  return names;
}

std::string shell_line(const std::vector<std::string>& words) {
  return joined(words, " ", "", [](const std::string& word) {
    const bool is_plain = !word.empty() && word.find_first_not_of(
                                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                               "-_=./:,@%+") == std::string::npos;
    std::string quoted;
    for (const char character : word) {
      quoted += character == '\'' ? "'\\''" : std::string(1, character);
    }
    return is_plain ? word : '\'' + quoted + '\'';
  });
}

// ---- reading values -------------------------------------------------------------------------------------------------

bool Options::given(const std::string& name) const {
  return values_.count(name) > 0 && !values_[name].defaulted();
}

std::string Options::text(const std::string& name) const {
  return values_.count(name) ? values_[name].as<std::string>() : "";
}

std::vector<std::string> Options::list(const std::string& name) const {
  return values_.count(name) ? values_[name].as<std::vector<std::string>>() : std::vector<std::string>();
}

std::int64_t Options::whole(const std::string& name, std::int64_t minimum, std::int64_t maximum) const {
  const std::string found = text(name);
  const auto value = number_in<std::int64_t>(found);
  if (!value || *value < minimum || *value > maximum) {
    throw InputError("--" + name + ": found " + in_quotes(found) + ": expected a whole number from " +
                     std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return *value;
}

int Options::count(const std::string& name, int most, int otherwise) const {
  return given(name) ? static_cast<int>(whole(name, 1, most)) : otherwise;
}

double Options::share(const std::string& name) const {
  const std::string given = text(name);
  std::string_view number = given;
  const auto trim = [&] { number = number.substr(0, number.find_last_not_of(' ') + 1); };
  trim();
  const bool is_percent = number.ends_with('%');
  number.remove_suffix(is_percent ? 1 : 0);
  trim();
  const auto value = number_in<double>(number);
  if (!value) {
    throw InputError("--" + name + ": found " + in_quotes(given) + ": expected a number such as 0.3 or 30%");
  }
  const double share = is_percent ? *value / 100 : *value;
  if (!(share > 0 && share <= 1)) {
    throw InputError("--" + name + ": found " + in_quotes(given) + ": expected more than 0 and at most 1 (100%)");
  }
  return share;
}

int Options::choice(const std::string& name, std::string_view found,
                    std::initializer_list<std::string_view> names) const {
  const auto place = std::find(names.begin(), names.end(), found);
  if (place == names.end()) {
    throw InputError("--" + name + ": found " + in_quotes(found) + ": expected " + joined(names, ", ", " or "));
  }
  return static_cast<int>(place - names.begin());
}

void Options::refuse(const std::vector<std::string>& names, const std::string& why, bool when) const {
  for (const std::string& name : names) {
    if (when && given(name)) {
      throw InputError("--" + name + ' ' + why);
    }
  }
}

OptionGroup options_of(const Verb& verb) {
  OptionGroup all;
  for (const OptionGroup& group : verb.options()) {
    all.add(group);
  }
  all.add(option_group("Help", {{"help,h", "", "Print this text."}}));
  return all;
}

int run_verb(const Verb& verb, std::vector<std::string> arguments) {
  const OptionGroup all = options_of(verb);
  po::positional_options_description places;
  if (*verb.bare != '\0') {
    places.add(verb.bare, -1);
  }
  Options options;
  try {
    po::store(po::command_line_parser(arguments)
                  .options(all)
                  .positional(places)
                  .style(po::command_line_style::unix_style ^ po::command_line_style::allow_guessing)
                  .run(),
              options.values_);
  } catch (const po::error& error) {
    refuse(verb, error, all);
  }
  if (options.flag("help")) {
    std::ostringstream text;
    text << verb.sentence << "\n\nUsage: onchip " << verb.name << " [options]\n"
         << all << "\nExample:\n  " << verb.example << '\n';
    std::cout << for_terminal(text.str());
    return 0;
  }
  arguments.insert(arguments.begin(), std::string(verb.name));
  options.words_ = shell_line(arguments);
  return verb.run(options);
}

// ---- the groups -----------------------------------------------------------------------------------------------------

OptionGroup chip_options() {
  return option_group("Chip", {{"chip", "NAME|FILE",
                                "Take a shipped chip (see 'onchip chips'), a chip file, or - for one from the standard "
                                "input. What runs on a GPU takes that GPU's chip unless another is given.",
                                "h200"},
                               {"set", "KEY=QUANTITY...",
                                "Change a number of the chip, e.g. shared_memory.per_sm=\"512 KiB\" sm.clock=+10% or "
                                "sm.count=x2; repeatable."}});
}

OptionGroup network_options() {
  return option_group(
      "Network",
      {{"cell", "CELL", "Set the cell: relu, tanh, lstm or gru.", "relu"},
       {"hidden", "N", "Set the number of hidden units."},
       {"batch", "N", "Set the number of sequences computed together; on the chip at most 64.",
        std::to_string(kUsualNetwork.batch)},
       {"steps", "N", "Set the number of time steps.", std::to_string(kUsualNetwork.steps)},
       {"density", "D", "Set the share of non-zero weights: 0.3 or 30%.", format_number(kUsualNetwork.density)},
       {"precision", "TYPE", "Set the type of weights and state: fp16, bf16, fp32 or fp8 (state fp16).", "fp16"},
       {"mask", "KIND",
        "Generate the non-zeros evenly (uniform), in uneven rows (power-law), or at most two in every four columns "
        "(2:4).",
        "uniform"},
       {"seed", "N", "Set the seed of the generated weights.", "1"},
       {"weights", "FILE",
        "Read the recurrent weights, and with them size and density, from a .safetensors, .safetensors.index.json, "
        ".npy, .mtx or .smtx file, which gzip, xz or zstd may have compressed."},
       {"tensor", "NAME",
        "Name the tensor, or its module, where several can be recurrent weights: fit, predict and measure answer for "
        "each of them."},
       {"transpose", "",
        "Read the matrices of the file transposed, as Keras saves them: [hidden, gates * hidden], or with --network "
        "[inputs, outputs]."}});
}

OptionGroup whole_network_options() {
  return option_group(
      "Whole network (any of these: the time of a sequence, with its input product; fit and what-if: a dense stack, "
      "all layers on the SMs at once)",
      {{"layers", "N", "Set the number of layers, each of --hidden units.", "1"},
       {"bidirectional", "", "Run every layer in both directions, one after the other."},
       {"input", "N", "Set the elements of a sample's input to the first layer (default: as many as --hidden)."}});
}

OptionGroup whole_plan_option() {
  return option_group("Whole plan", {{"plan", "TEXT",
                                      "Take a plan as another verb printed it, instead of the options of the plan "
                                      "(default: auto, the planner's); predict and measure: all compares the families; "
                                      "with --network: also a family, or 'staged ...', the one of 2020."}});
}

OptionGroup output_options() {
  return option_group(
      "Output", {{"format", "FORMAT", "Print a table, csv or json (default: by the extension of -o, else a table)."},
                 {"output,o", "FILE", "Write to a file, whole or not at all, instead of the standard output."}});
}

OptionGroup granule_option() {
  return option_group("Search", {{"granule", "N", "Search hidden sizes that are multiples of this.", "32"}});
}

OptionGroup simulator_options(bool has_without) {
  std::vector<OptionRow> options{
      {"scheduling", "POLICY", "Let schedulers choose warps greedy_then_youngest, greedy_then_oldest or round_robin.",
       "greedy_then_youngest"},
      {"threads", "N", "Use this many threads (default: all cores); the answer does not depend on it."}};
  if (has_without) {
    options.insert(options.begin(),
                   {"without", "PART...",
                    "Leave out a part of the model, to see what it is worth: banks, issue, scoreboard, fetch, exchange "
                    "or skew; repeatable."});
  }
  return option_group("Simulator", options);
}

// ---- what the groups mean -------------------------------------------------------------------------------------------

ChipFile named_chip(const std::string& name) {
  if (name == "-") {
    return load_chip_text(std::string(std::istreambuf_iterator<char>(std::cin), {}), "standard input");
  }
  return find_chip(name);
}

ChipFile read_base_chip(const Options& options) {
  return named_chip(options.text("chip"));
}

ChipFile read_chip(const Options& options) {
  return with_changes(read_base_chip(options), options);
}

ChipFile with_changes(ChipFile chip, const Options& options) {
  for (const std::string& assignment : options.list("set")) {
    set_chip_key(chip, assignment);
  }
  return chip;
}

SimulationOptions read_simulation(const Options& options) {
  SimulationOptions simulation;
  const std::array parts{&simulation.sm.banks, &simulation.sm.issue, &simulation.sm.scoreboard,
                         &simulation.sm.fetch, &simulation.exchange, &simulation.skew};
  for (const std::string& part : options.list("without")) {
    *parts[static_cast<std::size_t>(
        options.choice("without", part, {"banks", "issue", "scoreboard", "fetch", "exchange", "skew"}))] = false;
  }
  simulation.sm.scheduling = static_cast<Scheduling>(options.choice(
      "scheduling", options.text("scheduling"), {kSchedulingNames[0], kSchedulingNames[1], kSchedulingNames[2]}));
  simulation.threads = options.count("threads", 4096, all_cores());
  return simulation;
}

std::optional<Stack> read_stack(const Options& options) {
  if (!options.given("layers") && !options.flag("bidirectional") && !options.given("input")) {
    return std::nullopt;
  }
  return Stack{static_cast<int>(options.whole("layers", 1, kMostLayers)), options.flag("bidirectional"),
               options.count("input", kMaxHidden, 0)};
}

int read_granule(const Options& options) {
  return static_cast<int>(options.whole("granule", 1, kMostGranule));
}

namespace {

Configuration read_configuration_of(const std::string& tensor, const Options& options, bool needs_hidden,
                                    bool takes_all_families, bool takes_plan) {
  Configuration configuration;
  Recurrent& network = configuration.network;
  network.cell = parse_cell(options.text("cell"));
  network.precision = parse_precision(options.text("precision"));
  network.batch = static_cast<int>(options.whole("batch", 1, kMaxBatch));
  network.steps = static_cast<int>(options.whole("steps", 1, 2147483647));
  network.density = options.share("density");
  configuration.mask = parse_mask(options.text("mask"));
  configuration.seed = static_cast<std::uint64_t>(options.whole("seed", 0, kMostSeed));
  if (options.given("hidden")) {
    network.hidden = static_cast<int>(options.whole("hidden", 1, kMaxHidden));
  }
  if (options.given("weights")) {
    options.refuse({"mask"}, "contradicts --weights: the file has the non-zeros");
    const int hidden = network.hidden;
    const double density = network.density;
    configuration.weights_file = options.text("weights");
    configuration.tensor = tensor;
    configuration.transpose = options.flag("transpose");
    take_weights(configuration, configuration.weights_file);
    if (options.given("hidden") && hidden != network.hidden) {
      throw InputError("--hidden " + std::to_string(hidden) + " contradicts --weights: the matrix has " +
                       std::to_string(network.hidden) + " hidden units");
    }
    if (options.given("density") && std::abs(density / network.density - 1) > 0.01) {
      throw InputError("--density " + format_number(density) + " contradicts --weights: the matrix has " +
                       format_number(std::round(network.density * 1e4) / 1e4));
    }
  } else {
    options.refuse({"tensor", "transpose"}, "needs --weights");
    if (needs_hidden && !options.given("hidden")) {
      throw InputError("how large is the network? expected --hidden N or --weights FILE");
    }
  }
  configuration.constraints = read_constraints(options);
  const std::string plan = takes_plan && options.text("mode") != "train" ? options.text("plan") : "";  // of a step
  if (!plan.empty() && plan != "auto" && !(takes_all_families && plan == kAllPlans)) {
    options.refuse(names_of({plan_options()}), "contradicts --plan: a whole plan says it all");
    if (network.hidden == 0) {
      throw InputError("--plan needs --hidden or --weights: a plan is for one size");
    }
    configuration.plan = parse_plan_as<RecurrentPlan>(plan);
  }
  if (!takes_all_families) {
    check_is_on_chip(configuration.family());
  }
  check(configuration);
  return configuration;
}

}  // namespace

Configuration read_configuration(const Options& options, bool needs_hidden, bool takes_all_families, bool takes_plan) {
  return read_configuration_of(options.text("tensor"), options, needs_hidden, takes_all_families, takes_plan);
}

std::vector<Configuration> read_configurations(const Options& options, bool needs_hidden, bool takes_all_families) {
  std::vector<std::string> tensors{options.text("tensor")};
  if (options.given("weights") && !read_stack(options)) {
    const TensorChoice choice{tensors.front(), options.flag("transpose"), info(parse_cell(options.text("cell"))).gates};
    if (auto found = recurrent_tensors(options.text("weights"), choice); found.size() > 1) {
      tensors = std::move(found);
    }
  }
  std::vector<Configuration> configurations;
  for (const std::string& tensor : tensors) {
    configurations.push_back(
        read_configuration_of(tensor, options, needs_hidden, takes_all_families, /*takes_plan=*/true));
  }
  return configurations;
}

}  // namespace onchip
