// SPDX-License-Identifier: Apache-2.0
// Shipped chips, and changes of their numbers.
#include "model/chip/chip.hpp"

#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/base/shipped.hpp"
#include "model/chip/chip_base.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace onchip {
namespace {

constexpr std::string_view kSetByUser = "set by user";
constexpr std::string_view kCostPrefix = "cost.";

// Letters and digits in lower case: "RTX 4090" and "rtx-4090" are the same name.
std::string normalised(std::string_view name) {
  std::string result;
  for (const char character : name) {
    if ((character >= 'a' && character <= 'z') || (character >= '0' && character <= '9')) {
      result += character;
    } else if (character >= 'A' && character <= 'Z') {
      result += static_cast<char>(character - 'A' + 'a');
    }
  }
  return result;
}

// "NVIDIA A100-SXM4-40GB" -> "nvidia", "a100", "sxm4", "40gb"
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list{""};
  for (const char character : text) {
    if (const std::string letter = normalised({&character, 1}); !letter.empty()) {
      list.back() += letter;
    } else if (!list.back().empty()) {
      list.emplace_back();
    }
  }
  if (list.back().empty()) {
    list.pop_back();
  }
  return list;
}

// Whether all words of `asked` are words of the name: "h100" and "4090" are enough where one chip alone has them.
bool has_words(std::string_view name, std::string_view asked) {
  const std::vector<std::string> of_name = words(name), of_asked = words(asked);
  return !of_asked.empty() && std::ranges::all_of(of_asked, [&](const std::string& word) {
    return std::ranges::find(of_name, word) != of_name.end();
  });
}

// The shipped files, sorted by name.
std::vector<std::filesystem::path> shipped_files() {
  const ShippedFolder directory = chips_folder();
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  std::filesystem::directory_iterator entry(directory.path, problem);
  for (const std::filesystem::directory_iterator end; !problem && entry != end; entry.increment(problem)) {
    if (entry->path().extension() == ".toml") {
      files.push_back(entry->path());
    }
  }
  if (problem) {
    throw InputError(directory.path.string() + ": cannot read the directory of chip files: " + problem.message() +
                     (directory.chosen ? " (ONCHIP_CHIPS names it)" : " (ONCHIP_CHIPS can name another)"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "+10%" -> 1.1, "x2" -> 2; nothing if the text is no relative change.
std::optional<double> relative_factor(std::string_view text) {
  const auto number_of = [&](std::string_view digits) {
    if (const auto number = number_in<double>(digits); number && std::isfinite(*number) && digits[0] != '-') {
      return *number;
    }
    throw InputError("found " + in_quotes(text) + ": expected a change such as +10%, -10% or x2");
  };
  if (text.starts_with('x')) {
    return number_of(text.substr(1));
  }
  if (text.size() < 3 || (text.front() != '+' && text.front() != '-') || text.back() != '%') {
    return std::nullopt;
  }
  const double percent = number_of(without_blanks(text.substr(1, text.size() - 2)));
  return 1 + (text.front() == '+' ? percent : -percent) / 100;
}

// A term of the prices (cost_terms.hpp): a number, or a change in per cent.
ChipChange cost_change(std::string_view name, std::string_view quantity) {
  const auto term = std::ranges::find(kCostTerms, name, &CostTerm::name);
  if (term == kCostTerms.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(kCostTerms, std::back_inserter(names), &CostTerm::name);
    throw InputError("unknown cost term " + in_quotes(name) + did_you_mean(name, names));
  }
  const auto factor = relative_factor(quantity);
  return {nullptr, term->cost, false, factor ? *factor * term->value : parse_quantity(quantity, Dimension::count)};
}

// One number, without what it may contradict. What an SM has more, a block may ask for, and no more than the SM has;
// unless the user has set that limit.
void change_number(Chip& chip, const ChipChange& change, const std::function<bool(const Limit&)>& is_set) {
  if (change.key == nullptr) {
    chip.cost.set(change.cost, change.value);
    return;
  }
  const ChipKey& row = *change.key;
  Number& number = chip.*row.member;
  const double before = number.value;
  if (change.is_factor) {
    number.value *= change.value;
    number.half_width *= std::abs(change.value);
    if (const double step = hardware_step(chip, row); step > 0) {
      number.value = std::round(number.value / step) * step;
    }
  } else {
    number = {change.value, 0};
  }
  if (const std::string problem = number_problem(row, number.value); !problem.empty()) {
    throw InputError("'" + std::string(row.key) + "' " + problem);
  }
  if (const Limit limit = limit_after(chip, row); limit.member != nullptr && !is_set(limit)) {
    const double more = std::max(0.0, number.value - before);
    chip.*limit.member = {std::min(chip.*limit.member + more, limit.most), 0};
  }
}

// set_chip_key on a copy; errors without the assignment they belong to.
ChipFile with_key(ChipFile file, std::string_view assignment) {
  const ChipChange change = parse_chip_change(assignment);
  const auto is_set = [&](const Limit& limit) {
    Provenance& provenance = file.provenance[std::string(limit.key)];
    const bool by_user = provenance.source == kSetByUser;
    if (!by_user) {
      provenance.source = "follows " + std::string(change.key->key);
    }
    return by_user;
  };
  change_number(file.chip, change, is_set);
  if (change.key != nullptr) {
    Provenance& provenance = file.provenance[std::string(change.key->key)];
    if (!change.is_factor) {
      provenance.unit = base_unit(change.key->dimension);
    }
    provenance.source = kSetByUser;
  }
  if (const auto problem = inconsistency(file.chip)) {
    throw InputError(problem->message);
  }
  return file;
}

}  // namespace

ChipChange parse_chip_change(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw InputError("expected key=quantity");
  }
  const std::string_view key = without_blanks(assignment.substr(0, equals));
  const std::string_view quantity = without_blanks(assignment.substr(equals + 1));
  if (key.starts_with(kCostPrefix)) {
    return cost_change(key.substr(kCostPrefix.size()), quantity);
  }
  const ChipKey* row = find_key(key);
  if (!row) {
    throw InputError("unknown key " + in_quotes(key) + did_you_mean(key, key_names()));
  }
  const auto factor = relative_factor(quantity);
  return {row, {}, factor.has_value(), factor ? *factor : parse_quantity(quantity, row->dimension)};
}

void change_chip(Chip& chip, std::span<const ChipChange> changes) {
  const auto is_set = [&](const Limit& limit) {
    return std::ranges::any_of(
        changes, [&](const ChipChange& change) { return change.key != nullptr && change.key->member == limit.member; });
  };
  for (const ChipChange& change : changes) {
    change_number(chip, change, is_set);
  }
  if (const auto problem = inconsistency(chip)) {
    throw InputError(problem->message);
  }
}

ChipFile find_chip(std::string_view name_or_file) {
  if (name_or_file.find('/') != std::string_view::npos || name_or_file.ends_with(".toml")) {
    return load_chip(name_or_file);
  }
  const std::string name = normalised(name_or_file);
  for (const std::filesystem::path& file : shipped_files()) {
    if (normalised(file.stem().string()) == name) {
      return load_chip(file);
    }
  }
  std::vector<ChipFile> with_words;
  for (const std::filesystem::path& file : shipped_files()) {
    ChipFile chip = load_chip(file);
    if (normalised(chip.chip.name) == name) {
      return chip;
    }
    if (has_words(chip.chip.name, name_or_file)) {
      with_words.push_back(std::move(chip));
    }
  }
  if (with_words.size() > 1) {  // "h100" is the one that the other is made after
    std::erase_if(with_words, [](const ChipFile& chip) { return !chip.base.empty(); });
  }
  if (with_words.size() == 1) {
    return std::move(with_words.front());
  }
  const std::vector<std::string> names = shipped_chips();
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  std::string message = "unknown chip " + in_quotes(name_or_file) + did_you_mean(name_or_file, candidates);
  if (message.back() != '?') {
    message += ": expected the path of a file ending in .toml or one of ";
    for (const std::string& shipped : names) {
      message += (&shipped == &names.front() ? "'" : ", '") + shipped + "'";
    }
  }
  throw InputError(message + (message.back() == '?' ? " " : "; ") + "docs/add-a-chip.md says how to add one");
}

const Chip* chip_of_gpu(std::span<const Chip> chips, std::string_view gpu, int sms) {
  const Chip* best = nullptr;
  int most = 0;
  for (const Chip& chip : chips) {
    int score = 0;  // words that the GPU's name has before those that it lacks, "SXM" or "Jetson"
    bool is_another = chip.sm_count != sms, has_any = false;
    for (const std::string& word : words(chip.name)) {
      const bool has = has_words(gpu, word);
      const bool is_model = word.find_first_of("0123456789") != std::string::npos && !word.ends_with("gb");
      is_another |= is_model && !has;
      has_any |= has;
      score += has ? 4 : -1;
    }
    if (has_any && !is_another && (best == nullptr || score > most)) {
      best = &chip;
      most = score;
    }
  }
  return best;
}

std::vector<std::string> shipped_chips() {
  std::vector<Chip> chips;
  for (const std::filesystem::path& file : shipped_files()) {
    chips.push_back(load_chip(file).chip);
  }
  std::stable_sort(chips.begin(), chips.end(), [](const Chip& a, const Chip& b) {
    return std::pair<double, double>(a.compute_capability_major, a.compute_capability_minor) <
           std::pair<double, double>(b.compute_capability_major, b.compute_capability_minor);
  });
  std::vector<std::string> names;
  for (Chip& chip : chips) {
    names.push_back(std::move(chip.name));
  }
  return names;
}

void set_chip_key(ChipFile& file, std::string_view assignment) {
  try {
    file = with_key(file, assignment);
  } catch (const InputError& error) {
    throw InputError("cannot set " + in_quotes(assignment) + ": " + error.what());
  }
}

}  // namespace onchip
