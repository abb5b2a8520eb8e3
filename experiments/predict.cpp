// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one network.
#include "experiments/report.hpp"
#include "experiments/verbs.hpp"

namespace onchip {

int run_predict(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(
      verb, arguments, {chip_options(), network_options(), plan_options(), whole_plan_option(), output_options()});
  if (!options) {
    return 0;
  }
  const ChipFile chip = read_chip(*options);
  const Configuration configuration = read_configuration(*options, /*needs_hidden=*/true);
  Output output(*options);
  const Case answer{chip.chip.name, configuration, plan_network(chip.chip, configuration, row_profile(configuration))};
  output.write(
      {to_text(answer), {case_columns(), {case_cells(answer, Binding::part)}}, to_json(answer, Binding::part)});
  return answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
