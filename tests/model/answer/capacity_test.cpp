// SPDX-License-Identifier: Apache-2.0
// The largest networks that fit, and what would change them.
#include "model/answer/capacity.hpp"
#include "tests/catch.hpp"
#include "tests/model/plan/planned.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

using namespace onchip;

TEST_CASE("the largest size fits and the next granule does not", "[fast][long]") {
  const double density = GENERATE(0.05, 0.3, 1.0);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32);
  const Capacity capacity = find_capacity(h200(), {Cell::relu, precision, 1, 4, 1, density}, 32);
  REQUIRE(capacity.largest);
  CHECK(capacity.largest->prediction.footprint.fits);
  CHECK_FALSE(capacity.next.prediction.footprint.fits);
  CHECK(capacity.next.network.hidden == capacity.largest->network.hidden + 32);
}

TEST_CASE("sensitivities name the resource that binds", "[fast][long]") {
  Recurrent network = headline();
  network.density = 0.2;
  const ChipFile chip = find_chip("h200");
  Constraints constraints = kSparse;
  const Tier tier = GENERATE(Tier::registers, Tier::shared_memory, Tier::streamed);
  constraints.tier = tier;
  // Of one storage, or the largest size jumps from one's shapes to another's.
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  if (tier != Tier::registers) {  // or the search takes minutes
    fix<&SparsePlan::lanes_per_row>(constraints, 16);
    fix<&SparsePlan::loads_in_flight>(constraints, 4);
  }
  CAPTURE(name(tier));
  const auto found = sensitivities(chip, asked_of_chips(network, RowProfile::uniform(network), 32, constraints));
  REQUIRE(found.size() >= 5);
  const auto hidden_percent = [&](std::string_view key) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const Sensitivity& s) { return s.key == key; });
    return at == found.end() ? 0 : at->hidden_percent;
  };
  CHECK(std::any_of(found.begin(), found.end(),
                    [](const Sensitivity& s) { return s.key == "sm.clock" && s.step_percent < -2; }));
  // Threads have 255 registers at most, of which more threads have as many more to work with: they bind only alone.
  CHECK((tier == Tier::registers ? hidden_percent("registers.per_sm") > 2 : hidden_percent("registers.per_sm") >= 0));
  CHECK((tier == Tier::registers ? hidden_percent("shared_memory.per_sm") == 0
                                 : hidden_percent("shared_memory.per_sm") > 1));
  // Most of the weights come from L2 where they may.
  CHECK((tier == Tier::streamed ? hidden_percent("l2.size") > 2 : hidden_percent("l2.size") == 0));
}

TEST_CASE("shared memory and L2 hold weights that the registers cannot", "[fast][long]") {
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::tanh, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp32});
  const Recurrent network{cell, precision, 1, 4, 1, 0.1};
  CAPTURE(describe(network));
  const Capacity whole = find_capacity(h200(), network, 32, kSparse);
  REQUIRE(whole.largest);
  CHECK(sparse(*whole.largest).shared_chunks > 0);
  CHECK(sparse(*whole.largest).ring_chunks == 0);  // what fits is not streamed
  // The same with no more shared memory than the state needs, and no L2 to stream from.
  Chip bare = h200();
  bare.smem_bytes_per_block.value =
      static_cast<double>(sparse_geometry(*whole.largest).bytes_without_weights()) + 8 * 1024;
  bare.smem_bytes_per_sm.value = bare.smem_bytes_per_block + 1024;
  bare.l2_bytes.value = 0;
  const Capacity registers_only = find_capacity(bare, network, 32, kSparse);
  REQUIRE(registers_only.largest);
  CHECK(sparse(*registers_only.largest).ring_chunks == 0);
  CHECK(whole.largest->network.hidden > registers_only.largest->network.hidden * 1.05);
}

TEST_CASE("networks fit with more weights where zeros of 2:4 masks or empty words are not stored", "[fast]") {
  struct Asked {
    Cell cell;
    int batch;
    double density;
    Storage storage;
    double least, most;  // times the weights
  };
  constexpr Storage kStructured = Storage::structured_2_4;
  for (const auto& [cell, batch, density, storage, least, most] :
       {Asked{Cell::relu, 1, 0.5, kStructured, 1.5, 2.2}, Asked{Cell::relu, 8, 0.5, kStructured, 1.5, 2.2},
        Asked{Cell::lstm, 4, 0.5, kStructured, 1.5, 2.2}, Asked{Cell::lstm, 16, 0.1, Storage::bitmap, 1.6, 4}}) {
    const Recurrent network{cell, Precision::bf16, 1, batch, 1, density};
    const auto largest = [&](Storage as) {
      const MaskKind kind = as == kStructured ? MaskKind::two_four : MaskKind::uniform;
      return find_capacity(h200(), network, 32, dense_stored_as(as), {}, kind).largest->network.hidden;
    };
    const double more = std::pow(static_cast<double>(largest(storage)) / largest(Storage::dense), 2);
    CAPTURE(describe(network), more);
    CHECK(more > least);
    CHECK(more < most);
  }
}
