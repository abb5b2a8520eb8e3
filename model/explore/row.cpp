// SPDX-License-Identifier: Apache-2.0
#include "model/explore/row.hpp"

#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/table.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

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
      swept_(spec.swept()),
      seeks_size_(swept_.may_seek_size && !spec.has("hidden") && !spec.has("weights")),
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
      key_cells_.push_back(source);
      columns_.push_back(values.key.name);
      subjects |= bit(values.key.subject);
    }
  }
  // Then what all rows have in common, so that rows beside those of another sweep still say what they are of.
  std::vector<const KeyValues*> in_common;
  std::ranges::transform(spec.fixed, std::back_inserter(in_common), [](const KeyValues& values) { return &values; });
  std::ranges::sort(in_common, {}, [](const KeyValues* values) { return values->key.name; });
  for (const KeyValues* values : in_common) {
    key_cells_.push_back({values, &first_});
    columns_.push_back(values->key.name);
  }
  for (const char* key : {"hidden", "density"}) {  // where the answer, or a file, has it
    if (spec.has("weights") || (key == std::string_view("hidden") && seeks_size_)) {
      columns_.emplace_back(key);
      found_.push_back(find_number(key));
    }
  }
  has_tier_ = swept_.swept == Swept::recurrent && std::ranges::find(columns_, "tier") == columns_.end();  // no axis
  columns_.emplace_back("fits");
  if (swept_.swept == Swept::recurrent) {
    columns_.emplace_back("runs");
  }
  if (has_tier_) {
    columns_.emplace_back("tier");
  }
  columns_.emplace_back("binding");
  for (const std::string_view time : swept_.times) {
    columns_.emplace_back(time);
    times_.push_back(find_number(time));
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
  return format_ == RowFormat::csv ? joined(columns_, ",") + '\n' : "";
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

void RowComputer::plan_step() {
  const Configuration& configuration = draft_.configuration;
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
}

void RowComputer::answer_step() {
  const Configuration& configuration = draft_.configuration;
  const double seed = static_cast<double>(configuration.seed);
  answered_.of = SweptStep{&configuration.network, seed, nullptr, nullptr};
  if (problem_.empty()) {
    plan_step();
  }
  if (problem_.empty()) {
    answered_.of = SweptStep{&planned_->network, seed, &planned_->plan, &planned_->prediction};
  }
}

void RowComputer::answer_inference() {
  answered_.of = SweptInference{};
  if (problem_.empty()) {
    inference_ = predict(spec_.networks->question({chip_, {}, {}}, draft_.feed_forward)).answer;
    answered_.of = SweptInference{&*inference_};
  }
}

void RowComputer::answer_training() {
  const Configuration& configuration = draft_.configuration;
  const double seed = static_cast<double>(configuration.seed);
  answered_.of = SweptTraining{{&configuration.network, seed, nullptr, nullptr}, nullptr};
  if (!problem_.empty()) {
    return;
  }
  check(configuration);
  if (seeks_size_) {
    training_ = largest_training({{chip_, {}, {}}, configuration, draft_.stack, draft_.training, spec_.granule});
  } else {
    if (!trained_) {
      trained_ = training_of(configuration, draft_.stack);
    }
    training_ = {chip_.name, *trained_, plan_training_on_chip(chip_, *trained_, draft_.training)};
  }
  const Found<PlannedTraining>& planned = training_->planned;
  problem_ = planned ? "" : planned.why();
  answered_.of = SweptTraining{{&training_->training.network, seed, nullptr, planned ? &planned->prediction : nullptr},
                               &*training_};
}

void RowComputer::answer() {
  constexpr std::array<void (RowComputer::*)(), kSwept.size()> kAnswerOf{
      &RowComputer::answer_step, &RowComputer::answer_inference, &RowComputer::answer_training};
  answered_.chip = &chip_;
  const auto problem = std::ranges::find_if(problem_of_, [](const std::string& text) { return !text.empty(); });
  problem_ = problem != problem_of_.end() ? *problem : "";
  try {
    (this->*kAnswerOf[static_cast<std::size_t>(swept_.swept)])();
  } catch (const InputError& error) {
    problem_ = error.what();
  }
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
  try {
    if (where_) {
      const double kept = (*where_)(answered_);
      if (std::isnan(kept) || kept == 0) {
        return false;
      }
    }
    for (Extra& extra : extras_) {
      extra.value = extra.expression(answered_);
    }
  } catch (const InputError& error) {
    std::string values;
    for (const Source& source : key_cells_) {
      if (source.place != &first_) {
        values += (values.empty() ? "" : ", ") + source.of->key.name + "=" + source.value().text;
      }
    }
    throw InputError(std::string(error.what()) + " (row " + std::to_string(i) + ": " + values + ")");
  }
  for (std::size_t o = 0; o < of_objectives_.size(); ++o) {
    const OfObjective& of = of_objectives_[o];
    const double value = of.number ? of.number(answered_) : extras_[of.extra].value;
    objectives_[o] = of.is_largest ? -value : value;
  }
  return true;
}

// ---- its cells ------------------------------------------------------------------------------------------------------

namespace {

// Of whole numbers from 0, or of numbers: how a key's value stands in a row without quotes.
bool is_number(const Key& key, const KeyValue& value) {
  return key.is_number || (key.is_whole && std::isdigit(static_cast<unsigned char>(value.text[0])));
}

// Cells as text: of CSV, or of a line of JSON.
class TextCells {
 public:
  TextCells(RowFormat format, const std::vector<std::string>& columns, std::string& text)
      : format_(format), columns_(columns), text_(text) {}

  void whole(std::uint64_t number) {
    begin();
    std::array<char, 24> buffer;
    text_.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
  }
  void number(double number, int digits) {
    begin();
    if (!std::isfinite(number)) {
      text_ += format_ == RowFormat::csv ? "" : "null";
      return;
    }
    std::array<char, 32> buffer;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::general, digits);
    text_.append(buffer.data(), end.ptr);
  }
  void written_number(const std::string& number) {
    begin();
    text_ += number;
  }
  void truth(bool value) {
    begin();
    text_ += value ? "true" : "false";
  }
  void word(std::string_view word) {
    begin();
    if (format_ == RowFormat::json_lines) {
      text_ += word.empty() ? "null" : quoted_json(word);
    } else if (word.find_first_of(",\"\r\n") == std::string_view::npos) {
      text_ += word;
    } else {
      const std::string line = csv_line({std::string(word)});
      text_.append(line, 0, line.size() - 1);
    }
  }

 private:
  void begin() {
    const std::string& column = columns_[cell_];
    if (format_ == RowFormat::csv) {
      text_ += cell_ > 0 ? "," : "";
    } else {
      ((text_ += cell_ > 0 ? ", \"" : "{\"") += column) += "\": ";
    }
    ++cell_;
  }

  RowFormat format_;
  const std::vector<std::string>& columns_;
  std::string& text_;
  std::size_t cell_ = 0;
};

// Cells as they are in columns, with the numbers that the text has.
class ColumnCells {
 public:
  explicit ColumnCells(ColumnBatch& batch) : next_(batch.begin()) {}

  void whole(std::uint64_t number) { (next_++)->add(static_cast<std::int64_t>(number)); }
  void number(double number, int digits) { (next_++)->add(rounded(number, digits)); }
  void written_number(const std::string& number) {
    TableColumn& column = *next_++;
    const char* const end = number.data() + number.size();
    if (column.type() == ColumnType::whole) {
      std::int64_t value = 0;
      std::from_chars(number.data(), end, value);
      column.add(value);
    } else if (column.type() == ColumnType::number) {
      double value = 0;
      std::from_chars(number.data(), end, value);
      column.add(value);
    } else {
      column.add(std::string_view(number));
    }
  }
  void truth(bool value) { (next_++)->add(value); }
  void word(std::string_view word) { word.empty() ? (next_++)->add_none() : (next_++)->add(word); }

 private:
  ColumnBatch::iterator next_;
};

// The type of a key's column.
ColumnType type_of(const KeyValues& values) {
  const auto is_whole = [](const KeyValue& value) {
    constexpr std::size_t kSafe = 18;  // digits
    return !value.is_factor && value.text.size() <= kSafe &&
           value.text.find_first_not_of("-0123456789") == std::string::npos;
  };
  const auto is_any_number = [&](const KeyValue& value) { return value.is_factor || is_number(values.key, value); };
  return !std::ranges::all_of(values.values, is_any_number) ? ColumnType::text
         : std::ranges::all_of(values.values, is_whole)     ? ColumnType::whole
                                                            : ColumnType::number;
}

}  // namespace

template <typename Cells>
void RowComputer::for_each_cell(Cells&& cells) {
  constexpr std::size_t kShort = 4;  // bytes follow
  constexpr int kDigits = 6, kDigitsOfExtras = 9, kDigitsOfKeys = 15;
  cells.whole(row_);
  for (const Source& source : key_cells_) {
    const KeyValue& value = source.value();
    if (value.is_factor) {
      cells.number(chip_.*source.of->key.chip_key->member, kDigitsOfKeys);
    } else if (is_number(source.of->key, value)) {
      cells.written_number(value.text);
    } else {
      cells.word(value.text);
    }
  }
  for (const Number_of& found : found_) {
    cells.number(found(answered_), kDigitsOfKeys);
  }
  cells.truth(fits(answered_));
  if (swept_.swept == Swept::recurrent) {
    cells.truth(runs(answered_));
  }
  if (has_tier_) {
    cells.word(tier(answered_));
  }
  cells.word(binding(answered_));
  for (std::size_t i = 0; i < times_.size(); ++i) {
    cells.number(times_[i](answered_), i < kShort ? kDigits : kDigitsOfKeys);
  }
  if (!has_plan_) {
    cells.word(plan_text(answered_));
  }
  for (const Extra& extra : extras_) {
    cells.number(extra.value, kDigitsOfExtras);
  }
  cells.word(problem_);
}

void RowComputer::append_to(std::string& text) {
  for_each_cell(TextCells(format_, columns_, text));
  text += format_ == RowFormat::csv ? "\n" : "}\n";
}

void RowComputer::append_to(ColumnBatch& batch) {
  for_each_cell(ColumnCells(batch));
}

ColumnBatch RowComputer::no_rows() const {
  ColumnBatch batch;
  for (const std::string& column : columns_) {
    const bool is_truth = column == "fits" || column == "runs";
    const bool is_word = column == "tier" || column == "binding" || column == "plan" || column == "problem";
    batch.emplace_back(column, is_truth ? ColumnType::truth : is_word ? ColumnType::text : ColumnType::number);
  }
  batch.front() = TableColumn(columns_.front(), ColumnType::whole);
  for (std::size_t i = 0; i < key_cells_.size(); ++i) {
    batch[i + 1] = TableColumn(columns_[i + 1], type_of(*key_cells_[i].of));
  }
  return batch;
}

}  // namespace onchip
