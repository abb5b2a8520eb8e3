// SPDX-License-Identifier: Apache-2.0
#include "experiments/explore/row.hpp"

#include "experiments/measurement/configuration.hpp"
#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace onchip {
namespace {

std::string quoted_json(std::string_view word) {
  return Json(word).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace

RowComputer::RowComputer(const SweepSpec& spec, RowFormat format, AskEngine engine)
    : spec_(spec),
      format_(format),
      engine_(std::move(engine)),
      is_feed_forward_(spec.has("network")),
      is_training_(spec.trains()),
      seeks_size_(!is_feed_forward_ && !spec.has("hidden") && !spec.has("weights")),
      has_plan_(spec.has("plan")),
      columns_{"row"},
      place_(spec.axes.size(), 0),
      draft_(spec.chips) {
  for (const KeyValues& values : spec.fixed) {
    sources_[static_cast<std::size_t>(values.key.subject)].push_back({&values, &first_});
  }
  for (std::size_t axis = 0; axis < spec.axes.size(); ++axis) {
    unsigned& subjects = subjects_of_axis_.emplace_back(0);
    for (const KeyValues& values : spec.axes[axis].keys) {
      const Source source{&values, &place_[axis]};
      auto& of_subject = sources_[static_cast<std::size_t>(values.key.subject)];
      of_subject.insert(values.key.name == "plan" ? of_subject.begin() : of_subject.end(), source);
      axis_cells_.push_back(source);
      columns_.push_back(values.key.name);
      subjects |= bit(values.key.subject);
    }
  }
  for (const char* key : {"hidden", "density"}) {  // where the answer, or a file, has it
    if (spec.has("weights") || (key == std::string_view("hidden") && seeks_size_)) {
      columns_.emplace_back(key);
    }
  }
  columns_.insert(columns_.end(), {"fits", "binding"});
  using Names = std::array<const char*, 4>;
  for (const char* time : is_feed_forward_ ? Names{"ms", "low_ms", "high_ms", "floor_ms"}
                                           : Names{"step_us", "low_us", "high_us", "floor_us"}) {
    columns_.emplace_back(time);
    times_.push_back(find_number(time));
  }
  for (const char* bytes : {"stash_bytes", "workspace_bytes"}) {
    if (is_training_) {
      columns_.emplace_back(bytes);
      times_.push_back(find_number(bytes));
    }
  }
  if (!has_plan_) {
    columns_.emplace_back("plan");
  }
  for (const ExtraColumn& column : spec.columns) {
    if (std::ranges::find(columns_, column.name) != columns_.end()) {
      throw InputError("--column " + column.name + ": there is such a column");
    }
    columns_.push_back(column.name);
    extras_.push_back({Expression("--column " + column.name, column.expression), 0});
  }
  columns_.emplace_back("problem");
  if (!spec.where.empty()) {
    where_.emplace("--where", spec.where);
  }
  for (const Objective& objective : spec.keep_front) {
    const auto extra = std::ranges::find(spec.columns, objective.column, &ExtraColumn::name);
    const auto place = static_cast<std::size_t>(extra - spec.columns.begin());
    try {
      of_objectives_.push_back(
          {objective.is_largest, place, extra == spec.columns.end() ? find_number(objective.column) : Number_of{}});
    } catch (const InputError& error) {
      throw InputError(std::string("--keep-front: ") + error.what());
    }
  }
  objectives_.resize(of_objectives_.size());
}

std::string RowComputer::header() const {
  std::string line;
  for (const std::string& column : columns_) {
    line += (line.empty() ? "" : ",") + column;
  }
  return format_ == RowFormat::csv ? line + '\n' : "";
}

// ---- from the row's number to its question --------------------------------------------------------------------------

void RowComputer::move_to(std::uint64_t i) {
  row_ = i;
  for (std::size_t axis = place_.size(); axis-- > 0;) {
    const std::size_t size = spec_.axes[axis].size();
    const std::size_t place = i % size;
    i /= size;
    if (place != place_[axis]) {
      place_[axis] = place;
      stale_ |= subjects_of_axis_[axis];
    }
  }
}

void RowComputer::rebuild(Subject subject) {
  const auto index = static_cast<std::size_t>(subject);
  std::string& problem = problem_of_[index];
  problem.clear();
  draft_.reset(subject);
  try {
    for (const Source& source : sources_[index]) {
      source.of->key.apply(draft_, source.value());
    }
    if (subject == Subject::chip) {
      chip_ = *draft_.base;
      change_chip(chip_, draft_.changes);
    } else if (subject == Subject::weights && !draft_.configuration.weights_file.empty()) {
      take_weights(draft_.configuration, draft_.configuration.weights_file);
    }
  } catch (const InputError& error) {
    problem = error.what();
  }
  if (subject == Subject::weights) {
    rows_.reset();
  }
  if (subject == Subject::weights || subject == Subject::sequence) {
    trained_.reset();
  }
  is_checked_ &= subject == Subject::chip;
}

const RowProfile& RowComputer::rows() {
  if (!rows_) {
    const Configuration& configuration = draft_.configuration;
    rows_ = spec_.rows == "expected" ? RowProfile::uniform(configuration.network, expected_mask(configuration))
                                     : row_profile(configuration);
  }
  return *rows_;
}

// ---- the answer -----------------------------------------------------------------------------------------------------

void RowComputer::check_given_plan() {
  const Configuration& configuration = draft_.configuration;
  is_checked_ = true;
  problem_of_check_.clear();
  try {
    check(configuration);
    check_plan(configuration.network, *configuration.plan);
    check_rows(configuration.network, *configuration.plan, rows());
    planned_ = {configuration.network, *configuration.plan, {}};
  } catch (const InputError& error) {
    problem_of_check_ = error.what();
  }
}

// A network is dense unless it is said otherwise.
void RowComputer::answer_training() {
  Configuration& configuration = draft_.configuration;
  if (!spec_.has("density") && !spec_.has("mask") && !spec_.has("weights")) {
    configuration.network.density = 1;
  }
  check(configuration);
  if (seeks_size_) {
    training_ = largest_training({{chip_, {}, {}}, configuration, draft_.stack, draft_.training, spec_.granule});
    return;
  }
  if (!trained_) {
    trained_ = training_of(configuration, draft_.stack);
  }
  training_ = {chip_.name, *trained_, plan_training_on_chip(chip_, *trained_, draft_.training)};
}

void RowComputer::answer() {
  const Configuration& configuration = draft_.configuration;
  problem_.clear();
  for (const std::string& problem : problem_of_) {
    if (!problem.empty()) {
      problem_ = problem;
      training_.reset();
      return;
    }
  }
  inference_.reset();
  training_.reset();
  try {
    if (is_feed_forward_) {
      inference_ = spec_.networks->answer({chip_, {}, {}}, draft_.feed_forward);
      return;
    }
    if (is_training_) {
      answer_training();
      problem_ = training_->planned ? "" : training_->planned.why();
      return;
    }
    if (has_plan_ && !engine_) {  // as plan_network() does, but what is the same is not checked again
      if (!is_checked_) {
        check_given_plan();
      }
      problem_ = problem_of_check_;
      if (problem_.empty()) {
        planned_->prediction = predict(chip_, planned_->network, planned_->plan);
      }
      return;
    }
    check(configuration);
    if (seeks_size_) {
      Capacity capacity = largest_network({{chip_, {}, {}}, configuration, spec_.granule}, configuration);
      planned_ = capacity.largest ? std::move(*capacity.largest) : std::move(capacity.next);
    } else {
      planned_ = engine_ ? engine_(chip_, configuration, rows()) : plan_network(chip_, configuration, rows());
    }
  } catch (const InputError& error) {
    problem_ = error.what();
  }
}

Answered RowComputer::answered() const {
  const bool is_answered = problem_.empty();
  if (is_feed_forward_) {
    return {.chip = &chip_, .inference = is_answered ? &*inference_ : nullptr};
  }
  if (is_training_) {
    return {.chip = &chip_,
            .network = training_ ? &training_->training.network : &draft_.configuration.network,
            .seed = static_cast<double>(draft_.configuration.seed),
            .prediction = is_answered ? &training_->planned->prediction : nullptr,
            .training = training_ ? &*training_ : nullptr};
  }
  return {&chip_,
          is_answered ? &planned_->network : &draft_.configuration.network,
          static_cast<double>(draft_.configuration.seed),
          is_answered ? &planned_->plan : nullptr,
          is_answered ? &planned_->prediction : nullptr,
          nullptr,
          nullptr};
}

bool RowComputer::compute(std::uint64_t i) {
  move_to(i);
  for (int subject = 0; stale_ != 0 && subject < kSubjects; ++subject) {
    if ((stale_ & bit(static_cast<Subject>(subject))) != 0) {
      rebuild(static_cast<Subject>(subject));
    }
  }
  stale_ = 0;
  answer();
  const Answered row = answered();
  try {
    if (where_) {
      const double kept = (*where_)(row);
      if (std::isnan(kept) || kept == 0) {
        return false;
      }
    }
    for (Extra& extra : extras_) {
      extra.value = extra.expression(row);
    }
  } catch (const InputError& error) {
    std::string values;
    for (const Source& source : axis_cells_) {
      values += (values.empty() ? "" : ", ") + source.of->key.name + "=" + source.value().text;
    }
    throw InputError(std::string(error.what()) + " (row " + std::to_string(i) + ": " + values + ")");
  }
  for (std::size_t o = 0; o < of_objectives_.size(); ++o) {
    const OfObjective& of = of_objectives_[o];
    const double value = of.number ? of.number(row) : extras_[of.extra].value;
    objectives_[o] = of.is_largest ? -value : value;
  }
  return true;
}

// ---- its text -------------------------------------------------------------------------------------------------------

void RowComputer::begin_cell(std::string& text) {
  const std::string& column = columns_[cell_];
  if (format_ == RowFormat::csv) {
    if (cell_ > 0) {
      text += ',';
    }
  } else {
    text += cell_ > 0 ? ", \"" : "{\"";
    text += column;
    text += "\": ";
  }
  ++cell_;
}

void RowComputer::append_number(std::string& text, double number, int digits) {
  begin_cell(text);
  if (!std::isfinite(number)) {
    text += format_ == RowFormat::csv ? "" : "null";
    return;
  }
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::general, digits);
  text.append(buffer.data(), end.ptr);
}

void RowComputer::append_word(std::string& text, std::string_view word) {
  begin_cell(text);
  if (format_ == RowFormat::json_lines) {
    text += word.empty() ? "null" : quoted_json(word);
  } else if (word.find_first_of(",\"\r\n") == std::string_view::npos) {
    text += word;
  } else {
    const std::string line = csv_line({std::string(word)});
    text.append(line, 0, line.size() - 1);
  }
}

void RowComputer::append_to(std::string& text) {
  constexpr std::size_t kTimes = 4;  // bytes follow
  constexpr int kDigits = 6, kDigitsOfExtras = 9, kDigitsOfKeys = 15;
  const Answered row = answered();
  cell_ = 0;
  begin_cell(text);
  std::array<char, 24> number;
  text.append(number.data(), std::to_chars(number.data(), number.data() + number.size(), row_).ptr);
  for (const Source& source : axis_cells_) {
    const Key& key = source.of->key;
    const Value& value = source.value();
    if (value.is_factor) {
      append_number(text, chip_.*key.chip_key->member, kDigitsOfKeys);
    } else if (key.is_number || (key.is_whole && std::isdigit(static_cast<unsigned char>(value.text[0])))) {
      begin_cell(text);
      text += value.text;
    } else {
      append_word(text, value.text);
    }
  }
  if (seeks_size_ || spec_.has("weights")) {
    append_number(text, row.network->hidden, kDigitsOfKeys);
  }
  if (spec_.has("weights")) {
    append_number(text, row.network->density, kDigitsOfKeys);
  }
  begin_cell(text);
  text += find_number("fits")(row) > 0 ? "true" : "false";
  append_word(text, row.inference != nullptr    ? row.inference->price.binding
                    : row.prediction != nullptr ? binding_name(*row.prediction, Binding::term)
                                                : "");
  for (std::size_t i = 0; i < times_.size(); ++i) {
    append_number(text, times_[i](row), i < kTimes ? kDigits : kDigitsOfKeys);
  }
  if (!has_plan_) {
    append_word(text, row.inference != nullptr                      ? row.inference->plan
                      : row.training != nullptr && problem_.empty() ? to_string(training_->planned->plan)
                      : row.plan != nullptr                         ? to_string(*row.plan)
                                                                    : "");
  }
  for (const Extra& extra : extras_) {
    append_number(text, extra.value, kDigitsOfExtras);
  }
  append_word(text, problem_);
  text += format_ == RowFormat::csv ? "\n" : "}\n";
}

}  // namespace onchip
