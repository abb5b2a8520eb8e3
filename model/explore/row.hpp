// SPDX-License-Identifier: Apache-2.0
// Row i of a sweep: a function of spec and i alone. One object per thread: it keeps what the next row has in common.
#pragma once

#include "model/explore/expression.hpp"
#include "model/explore/spec.hpp"
#include "model/explore/table_columns.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class RowFormat : std::uint8_t { csv, json_lines, columns };

// Another engine than the model: a plan, and its time as simulated or measured.
using AskEngine = std::function<PlannedNetwork(const Chip&, const Configuration&, const RowProfile&)>;

class RowComputer {
 public:
  // Throws InputError for an expression that is none.
  RowComputer(const SweepSpec& spec, RowFormat format, AskEngine engine = {});
  RowComputer(const RowComputer&) = delete;
  RowComputer& operator=(const RowComputer&) = delete;

  // Answers the question of row i. False where --where leaves it out. Throws InputError with the row for an expression
  // that divides by zero.
  bool compute(std::uint64_t i);
  // The row computed last, in the format of text, or as columns, which begin as no_rows().
  void append_to(std::string& text);
  void append_to(ColumnBatch& batch);
  ColumnBatch no_rows() const;
  // Of that row, by SweepSpec::keep_front: smaller is better; NaN: not known.
  const std::vector<double>& objectives() const { return objectives_; }

  RowFormat format() const { return format_; }
  std::string header() const;  // "" but for CSV
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  // Which of a key's values counts; of a fixed key always the first.
  struct Source {
    const KeyValues* of;
    const std::size_t* place;
    const KeyValue& value() const { return of->values[*place]; }
  };
  static constexpr unsigned bit(Subject subject) { return 1u << static_cast<unsigned>(subject); }

  void move_to(std::uint64_t i);
  void rebuild(Subject subject);
  const RowProfile& rows();
  void check_given_plan();
  void plan_step();
  // By what the row is of: answers it, if there is no problem, and says so in `answered_`.
  void answer_step();
  void answer_inference();
  void answer_training();
  void answer();

  template <typename Cells>
  void for_each_cell(Cells&& cells);

  const SweepSpec& spec_;
  const RowFormat format_;
  const AskEngine engine_;
  const SweptInfo& swept_;
  const bool seeks_size_, has_plan_;
  bool has_tier_ = false;  // a column of its own
  std::vector<std::string> columns_;
  std::vector<Number_of> found_;  // hidden size and density, where the answer or a file has them
  std::vector<Number_of> times_;

  std::vector<std::size_t> place_;  // [axes]
  std::size_t first_ = 0;
  std::array<std::vector<Source>, kSubjects> sources_;  // by Subject
  std::vector<Source> key_cells_;                       // in the order of the columns
  std::vector<unsigned> subjects_of_axis_;              // [axes], bits
  unsigned stale_ = ~0u;                                // bits

  Draft draft_;
  Chip chip_;
  std::array<std::string, kSubjects> problem_of_;  // by Subject
  std::string problem_of_check_, problem_;
  bool is_checked_ = false;  // the given plan against network and rows
  std::optional<RowProfile> rows_;
  std::optional<PlannedNetwork> planned_;
  std::optional<FeedForwardCase> inference_;
  std::optional<Training> trained_;  // of the row's network
  std::optional<TrainingCase> training_;
  Answered answered_;
  std::uint64_t row_ = 0;

  struct Extra {
    Expression expression;
    double value = 0;
  };
  struct OfObjective {
    bool is_largest;
    std::size_t extra;  // or else
    Number_of number;
  };
  std::optional<Expression> where_;
  std::vector<Extra> extras_;
  std::vector<OfObjective> of_objectives_;
  std::vector<double> objectives_;
};

}  // namespace onchip
