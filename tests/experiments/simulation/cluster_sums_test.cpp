// SPDX-License-Identifier: Apache-2.0
// The microbenchmark of sums that SMs of a cluster add up, interpreted.
#include "kernels/microbench/cases.hpp"
#include "sim/ptx/machine.hpp"
#include "tests/catch.hpp"

#include <span>
#include <vector>

namespace onchip {

TEST_CASE("a microbenchmark adds up the sums of a cluster, or its own, as its host says", "[fast]") {
  using namespace microbench;
  constexpr int kClusters = 2, kSteps = 7;
  for (const SumsCase& c : {SumsCase{2, 8, 64}, SumsCase{4, 3, 96}, SumsCase{4, 16, 128}}) {
    for (const bool exchanges : {true, false}) {
      CAPTURE(c.sms, c.samples, c.threads, exchanges);
      ptx::Machine machine(ptx::parse(compile_ptx(sums_request("sm_90", c, exchanges)), "cluster_sums.ptx"));
      std::vector<u32> checksums(static_cast<std::size_t>(kClusters * c.sms)), status(1);
      std::vector<long long> times(2);
      machine.memory().add(std::as_writable_bytes(std::span(checksums)));
      machine.memory().add(std::as_writable_bytes(std::span(times)));
      machine.memory().add(std::as_writable_bytes(std::span(status)));
      const struct {  // as in cluster_sums.cu
        u32* checksums;
        long long* times;
        u32* status;
        int warmup, steps;
      } arguments{checksums.data(), times.data(), status.data(), 2, kSteps};
      machine.launch("microbench_cluster_sums", {.blocks = kClusters * c.sms,
                                                 .threads = c.threads,
                                                 .dynamic_shared_bytes = static_cast<std::size_t>(c.smem_bytes()),
                                                 .parameters = std::as_bytes(std::span(&arguments, 1))});
      const std::vector<u32> expected = expected_sums(c, exchanges, kSteps);
      for (std::size_t block = 0; block < checksums.size(); ++block) {
        CHECK(checksums[block] == expected[block % expected.size()]);
      }
      CHECK(status[0] == 0);
      CHECK(times[1] > times[0]);
    }
  }
}

}  // namespace onchip
