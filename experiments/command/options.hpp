// SPDX-License-Identifier: Apache-2.0
// The command line: options in groups by subject, the same in every verb that has them. Unknown ones are errors with
// the nearest valid name; nothing is guessed from a prefix.
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/whole_network.hpp"
#include "model/chip/chip.hpp"
#include "sim/simulate.hpp"

#include <boost/program_options.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct Verb;  // verbs.hpp
using OptionGroup = boost::program_options::options_description;

// An option as a row of a table; its value is kept as text.
struct OptionRow {
  std::string name;      // "output,o": with its letter
  std::string argument;  // "" of a flag; "FILE..." of one that may be repeated
  std::string help;
  std::string by_default = {};
};

// Help is as wide as the terminal, up to 100 columns.
OptionGroup option_group(const char* title, const std::vector<OptionRow>& options);

std::vector<std::string> names_of(const std::vector<OptionGroup>& groups);

// What the user said, word for word, as a shell takes it.
std::string shell_line(const std::vector<std::string>& words);

// Values are kept as text; these read them, and throw InputError with the option's name, what was found and what was
// expected.
class Options {
 public:
  bool given(const std::string& name) const;  // by the user, not by default
  bool flag(const std::string& name) const { return values_.count(name) > 0; }
  std::string text(const std::string& name) const;  // "" if there is none
  std::vector<std::string> list(const std::string& name) const;
  std::int64_t whole(const std::string& name, std::int64_t minimum, std::int64_t maximum) const;
  int count(const std::string& name, int most, int otherwise) const;  // from 1 on; where it is not given otherwise
  double share(const std::string& name) const;                        // 0.3 or 30%: more than 0, at most 1
  int choice(const std::string& name, std::string_view found, std::initializer_list<std::string_view> names) const;
  // Throws InputError "--NAME WHY" for the first of these that is given, where it must not be.
  void refuse(const std::vector<std::string>& names, const std::string& why, bool when = true) const;
  // That they were given with.
  std::string command(const std::string& program = "onchip") const { return program + ' ' + words_; }

 private:
  friend int run_verb(const Verb&, std::vector<std::string>);
  boost::program_options::variables_map values_;
  std::string words_;
};

// All of a verb's, with --help.
OptionGroup options_of(const Verb& verb);
// Its exit status; help is printed instead where it is asked for.
int run_verb(const Verb& verb, std::vector<std::string> arguments);

OptionGroup chip_options();
OptionGroup network_options();
OptionGroup whole_network_options();
OptionGroup whole_plan_option();
OptionGroup output_options();
OptionGroup granule_option();
OptionGroup simulator_options(bool has_without = true);  // with --without

// A shipped chip, the file of one, or, by the name "-", the standard input.
ChipFile named_chip(const std::string& name);
ChipFile with_changes(ChipFile chip, const Options& options);  // every --set
ChipFile read_base_chip(const Options& options);               // --chip
ChipFile read_chip(const Options& options);                    // both

// The options of network, mask and plan. Without --hidden or --weights the hidden size is 0, unless `needs_hidden`. The
// verb may take all families: --plan all, which is no plan, and the libraries'; or a --plan that is not of one step.
Configuration read_configuration(const Options& options, bool needs_hidden, bool takes_all_families = false,
                                 bool takes_plan = true);
// The same of every tensor of --weights that can be meant: each layer and direction of a checkpoint.
std::vector<Configuration> read_configurations(const Options& options, bool needs_hidden,
                                               bool takes_all_families = false);
inline constexpr std::string_view kAllPlans = "all";

// Nothing where no option of a whole network is given.
std::optional<Stack> read_stack(const Options& options);

int read_granule(const Options& options);

SimulationOptions read_simulation(const Options& options);

}  // namespace onchip
