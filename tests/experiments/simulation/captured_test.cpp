// SPDX-License-Identifier: Apache-2.0
// The generated accesses to shared memory against those that kernels wrote down on an H200 (measure --capture), address
// by address.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/measurement/configuration.hpp"
#include "model/base/table.hpp"
#include "model/families/layout.hpp"
#include "sim/sparse/plan_trace.hpp"
#include "sim/trace/capture_difference.hpp"
#include "sim/trace/trace_file.hpp"
#include "tests/catch.hpp"

#include <filesystem>
#include <string>

using namespace onchip;

TEST_CASE("every access to shared memory is where a kernel on an H200 made it", "[fast]") {
  const std::filesystem::path folder = std::filesystem::path(ONCHIP_SOURCE_DIR) / "experiments/data/h200/captured";
  const CsvReader rows(folder / "captured.csv");
  REQUIRE(rows.size() >= 10);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Configuration configuration = read_configuration_row(rows, row);
    CAPTURE(row, describe(configuration.network), to_string(*configuration.plan));
    const PlanTrace generated(
        replayable(make_layout(configuration.network, *configuration.plan, *recurrent_matrix(configuration))),
        PlanTrace::kAllRegisters, Traced::whole, Issued::as_written);
    const auto captured = read_trace(folder / (std::to_string(row) + ".trace"));
    REQUIRE(captured->blocks() == generated.blocks());
    double accesses = 0;
    for (int block = 0; block < captured->blocks(); ++block) {
      const BlockTrace found = captured->block(block);
      CHECK(first_difference(generated.block(block), found).value_or("") == "");
      for (const WarpTrace& warp : found.warps) {
        accesses += static_cast<double>(warp.instructions.size());
      }
    }
    CHECK(accesses == rows.number(row, "accesses"));
  }
}
