// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/completion.hpp"

#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/plan/choices.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>

namespace onchip {
namespace {

namespace po = boost::program_options;

std::string chip_words() {
  return joined(shipped_chips(), " ", "", [](std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == ' ' ? '_' : std::tolower(c); });
    return name;
  });
}

// What an option's value can be, by the option's name; of all others any word or file.
const std::map<std::string, std::string>& value_words() {
  static const std::map<std::string, std::string> words{
      {"chip", chip_words()},
      {"engine", "model simulator measure"},
      {"format", "table csv json"},
      {"mask", "uniform power-law 2:4"},
      {"without", "banks issue scoreboard fetch exchange skew"},
      {"cell", joined(kCells, " ", "", &CellInfo::name)},
      {"precision", joined(kPrecisions, " ", "", &PrecisionInfo::name)},
      {"tier", joined(kTierNames, " ")},
      {"scheduling", joined(kSchedulingNames, " ")}};
  return words;
}

std::string words_of(const po::option_description& option) {
  const auto found = value_words().find(option.long_name());
  return found == value_words().end() ? "" : found->second;
}

bool takes_value(const po::option_description& option) {
  return option.semantic()->max_tokens() > 0;
}

// Text within '...' of a shell, with a backslash before each of `special`.
std::string quoted(std::string_view text, std::string_view special, std::string_view quote) {
  std::string result;
  for (const char character : text) {
    if (character == '\'') {
      result += quote;
      continue;
    }
    result += (special.find(character) == std::string_view::npos ? "" : "\\") + std::string(1, character);
  }
  return result;
}

std::string bash_part(const Verb& verb, const OptionGroup& options) {
  const std::string names =
      joined(options.options(), " ", "", [](const auto& option) { return "--" + option->long_name(); });
  return "    " + std::string(verb.name) + ") words='" + names + "' ;;\n";
}

std::string zsh_part(const Verb& verb, const OptionGroup& options) {
  std::string text = "    " + std::string(verb.name) + ")\n      _arguments '*:file:_files'";
  for (const auto& option : options.options()) {
    const std::string words = words_of(*option);
    text += " \\\n        '*--" + option->long_name() + (takes_value(*option) ? "=" : "") + '[' +
            quoted(option->description(), "[]:\\", "'\\''") + ']' +
            (!takes_value(*option) ? "" : ":value:" + (words.empty() ? "_files" : '(' + quoted(words, ":", "") + ')')) +
            '\'';
  }
  return text + " ;;\n";
}

std::string fish_part(const Verb& verb, const OptionGroup& options) {
  std::string text;
  for (const auto& option : options.options()) {
    const std::string words = words_of(*option);
    text += "complete -c onchip -n '__fish_seen_subcommand_from " + std::string(verb.name) + "' -l " +
            option->long_name() +
            (!takes_value(*option) ? ""
             : words.empty()       ? " -r"
                                   : " -x -a '" + words + '\'') +
            " -d '" + quoted(option->description(), "\\", "\\'") + "'\n";
  }
  return text;
}

std::string all_verbs() {
  return joined(kVerbs, " ", "", &Verb::name);
}

std::string bash_begin() {
  std::string text =
      "# bash completion of onchip; made by 'onchip completion bash'\n"
      "_onchip() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
      "  [[ $word == '=' ]] && word=\n"
      "  [[ $before == '=' ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  case $before in\n"
      "    onchip|help) [[ $COMP_CWORD -le 2 ]] && words='" +
      all_verbs() + " help' ;;\n";
  for (const auto& [option, words] : value_words()) {
    text += "    --" + option + ") words='" + words + "' ;;\n";
  }
  return text +
         "  esac\n"
         "  [[ -n $words || $word != -* ]] || case ${COMP_WORDS[1]} in\n";
}

constexpr std::string_view kBashEnd =
    "  esac\n"
    "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
    "}\n"
    "complete -o default -F _onchip onchip\n";

std::string zsh_begin() {
  std::string text =
      "#compdef onchip\n"
      "# zsh completion of onchip; made by 'onchip completion zsh'\n"
      "_onchip() {\n"
      "  local -a verbs=(\n";
  for (const Verb* verb : kVerbs) {
    text += "    '" + std::string(verb->name) + ':' + quoted(verb->sentence, "", "'\\''") + "'\n";
  }
  return text +
         "    'help:Print the options of a verb.')\n"
         "  if ((CURRENT == 2)) || [[ $words[2] == help ]]; then\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $words[1] in\n";
}

constexpr std::string_view kZshEnd =
    "  esac\n"
    "}\n"
    "_onchip \"$@\"\n";

std::string fish_begin() {
  std::string text = "# fish completion of onchip; made by 'onchip completion fish'\n";
  for (const Verb* verb : kVerbs) {
    text += "complete -c onchip -f -n __fish_use_subcommand -a " + std::string(verb->name) + " -d '" +
            quoted(verb->sentence, "\\", "\\'") + "'\n";
  }
  return text + "complete -c onchip -f -n __fish_use_subcommand -a help -d 'Print the options of a verb.'\n" +
         "complete -c onchip -f -n '__fish_seen_subcommand_from help' -a '" + all_verbs() + "'\n";
}

struct Shell {
  std::string_view name;
  std::string (*begin)();
  std::string (*part)(const Verb&, const OptionGroup&);
  std::string_view end;
};
constexpr std::array kShells{Shell{"bash", bash_begin, bash_part, kBashEnd}, Shell{"zsh", zsh_begin, zsh_part, kZshEnd},
                             Shell{"fish", fish_begin, fish_part, ""}};

}  // namespace

int print_completion(const std::vector<std::string>& names) {
  const std::string name = names.size() == 1 ? names[0] : "";
  const auto shell = std::ranges::find(kShells, name, &Shell::name);
  if (shell == kShells.end()) {
    throw InputError("found " + in_quotes(name) + ": expected a shell: bash, zsh or fish");
  }
  std::cout << shell->begin();
  for (const Verb* verb : kVerbs) {
    std::cout << shell->part(*verb, options_of(*verb));
  }
  std::cout << shell->end;
  return 0;
}

}  // namespace onchip
