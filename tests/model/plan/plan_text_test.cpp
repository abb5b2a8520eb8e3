// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan_text.hpp"

#include "model/families/plan.hpp"
#include "tests/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace onchip;

TEST_CASE("text that is no plan is refused with a reason", "[fast]") {
  const auto refused = [](const std::string& words, const std::string& why) {
    CHECK_THROWS_WITH(parse_recurrent_plan("sparse_persistent " + words), "plan: " + why);
  };
  refused("smz=132", "unknown key 'smz'; did you mean 'sms'?");
  refused("sms=-4", "'sms' expects a whole number, found '-4'");
  refused("sms=", "'sms' expects a whole number, found ''");
  refused("threads=4x", "'threads' expects a whole number, found '4x'");
  refused("sms=99999999999", "'sms' expects a whole number, found '99999999999'");
  refused("slots=1//2", "'slots' expects a whole number, found ''");
  refused("slots=1/2/", "'slots' expects a whole number, found ''");
  refused("slots=1,2", "'slots' expects a whole number, found '1,2'");
  refused("overflow_chunk=1", "unknown key 'overflow_chunk'; did you mean 'overflow_chunks'?");
  refused("unpacked=1", "unknown key 'unpacked'");
  refused("packed_pear", "sparse_persistent does not know 'packed_pear'; did you mean 'packed_pair'?");
  CHECK_THROWS_WITH(parse_recurrent_plan("sparse_persistant sms=1"),
                    "plan: unknown family 'sparse_persistant'; did you mean 'sparse_persistent'?");
  CHECK_THROWS_WITH(parse_recurrent_plan("sms=2"), Catch::Matchers::StartsWith("plan: unknown family 'sms=2'"));
  CHECK_THROWS_WITH(parse_recurrent_plan(""), Catch::Matchers::StartsWith("plan: unknown family ''"));
  std::string many = "slots=1";
  for (int r = 1; r <= kMaxRowsPerGroup; ++r) {
    many += "/1";
  }
  refused(many, "more than 32 rows per group");
  refused("sms=2", "sparse_persistent expects 'slots=', too");
  refused("sms=2 sms=2 slots=1", "'sms' stands twice");
}

TEST_CASE("a plan's text is parted outside of brackets", "[fast]") {
  using Parts = std::vector<std::string_view>;
  CHECK(split_text("a [b c] d", ' ') == Parts{"a", "[b c]", "d"});
  CHECK(split_text("a=[b=[c d] e] f", ' ') == Parts{"a=[b=[c d] e]", "f"});
  CHECK(split_text("1,2,", ',') == Parts{"1", "2", ""});
  CHECK(split_text("", ',') == Parts{""});
}

TEST_CASE("old names are refused with the new one", "[fast]") {
  for (const auto& [before, now] : {std::pair{"first_look", "poll_delay"},
                                    {"tail_chunks", "overflow_chunks"},
                                    {"longest_tail", "longest_overflow"},
                                    {"pieces", "row_splits"},
                                    {"piece_slots", "split_slots"},
                                    {"most_pieces", "most_splits"},
                                    {"piece_chunks", "split_chunks"},
                                    {"exchange_warps", "producer_warps"}}) {
    CHECK_THROWS_WITH(parse_recurrent_plan(std::string("sparse_persistent ") + before + "=1"),
                      "plan: unknown key '" + std::string(before) + "'; it is called " + now + " now");
  }
  CHECK_THROWS_WITH(parse_recurrent_plan("dense_persistent teams=2"),
                    "plan: unknown key 'teams'; it is called batch_groups now");
}

TEST_CASE("a plan's text leaves out what is as usual, and plans without it have it so", "[fast]") {
  CHECK(
      to_string(
          parse_recurrent_plan("sparse_persistent packed_pair bank_aware lamport sms=7 threads=64 lanes_per_row=8 "
                               "slots=3/2 tile_rows=1 poll_delay=0 loads_in_flight=2")) ==
      "sparse_persistent packed_pair bank_aware lamport sms=7 threads=64 lanes_per_row=8 slots=3/2 loads_in_flight=2");
  CHECK(to_string(parse_recurrent_plan("dense_persistent sms=2 threads=32"))
            .starts_with("dense_persistent dense lamport sms=2 "));
  CHECK(std::get<SparsePlan>(parse_recurrent_plan("sparse_persistent sms=2 slots=1")).storage == Storage::packed_pair);
  CHECK(to_string(CudnnPlan{}) == "cudnn");
}
