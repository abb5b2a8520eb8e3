// SPDX-License-Identifier: Apache-2.0
// The command line: options in groups by subject, the same in every verb that has them. Unknown ones are errors with
// the nearest valid name; nothing is guessed from a prefix.
#pragma once

#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "model/answer/answer.hpp"
#include "model/answer/whole_network.hpp"
#include "model/chip/chip.hpp"
#include "sim/simulate.hpp"

#include <boost/program_options.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

using OptionGroup = boost::program_options::options_description;

// A value that is kept as text.
inline auto text_option(const std::string& argument) {
  return boost::program_options::value<std::string>()->value_name(argument);
}

// As wide as help may be.
inline OptionGroup option_group(const char* title) {
  const std::size_t terminal = terminal_columns();
  const unsigned width = terminal == 0 ? 100 : static_cast<unsigned>(std::clamp<std::size_t>(terminal, 60, 100));
  return {title, width, width * 3 / 5};
}

// What the user said, word for word, as a shell takes it.
std::string command_line(const std::string& program, const Verb& verb, const std::vector<std::string>& arguments);

// Values are kept as text; these read them, and throw InputError with the option's name, what was found and what was
// expected.
class Options {
 public:
  bool given(const std::string& name) const;  // by the user, not by default
  bool flag(const std::string& name) const { return values_.count(name) > 0; }
  std::string text(const std::string& name) const;  // "" if there is none
  std::vector<std::string> list(const std::string& name) const;
  std::int64_t whole(const std::string& name, std::int64_t minimum, std::int64_t maximum) const;
  double share(const std::string& name) const;  // 0.3 or 30%: more than 0, at most 1
  int choice(const std::string& name, std::string_view found, std::initializer_list<std::string_view> names) const;
  const std::string& command() const { return command_; }  // that they were given with

 private:
  friend std::optional<Options> parse_options(const Verb&, const std::vector<std::string>&,
                                              const std::vector<OptionGroup>&, const std::string&);
  boost::program_options::variables_map values_;
  std::string command_;
};

// Nothing if help, or completion, was asked for and printed. `positional`: the option that bare words belong to, "" if
// none may be.
std::optional<Options> parse_options(const Verb& verb, const std::vector<std::string>& arguments,
                                     const std::vector<OptionGroup>& groups, const std::string& positional = "");

OptionGroup chip_options();
OptionGroup network_options();
OptionGroup whole_network_options();
OptionGroup whole_plan_option();
OptionGroup output_options();
OptionGroup granule_option();
OptionGroup simulator_options();

// A shipped chip, the file of one, or, by the name "-", the standard input.
ChipFile named_chip(const std::string& name);
ChipFile with_changes(ChipFile chip, const Options& options);  // every --set
ChipFile read_base_chip(const Options& options);               // --chip
ChipFile read_chip(const Options& options);                    // both

// The options of network, mask and plan. Without --hidden or --weights the hidden size is 0, unless `needs_hidden`. The
// verb may take all families: --plan all, which is no plan, and the libraries'.
Configuration read_configuration(const Options& options, bool needs_hidden, bool takes_all_families = false);
// The same of every tensor of --weights that can be meant: each layer and direction of a checkpoint.
std::vector<Configuration> read_configurations(const Options& options, bool needs_hidden,
                                               bool takes_all_families = false);
inline constexpr std::string_view kAllPlans = "all";

// Nothing where no option of a whole network is given.
std::optional<Stack> read_stack(const Options& options);

int read_granule(const Options& options);

SimulationOptions read_simulation(const Options& options);

}  // namespace onchip
