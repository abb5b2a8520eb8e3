// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/model/feed_forward/plans.hpp"

namespace onchip {

TEST_CASE("kernels of staged plans keep what they need in registers", "[fast]") {
  for (const char* plan : {"staged", "staged l1", "staged unblocked fp16", "staged images=32",
                           "staged block_outputs=1024 staged_bytes=98304"}) {
    INFO(plan);
    const ResourceReport resources = compile(staged_request(staged_plan(plan), "sm_90")).resources;
    CHECK(resources.spill_bytes == 0);
  }
}

TEST_CASE("staged plans have the categories of the reference on a GPU, in each of their ways", "[gpu]") {
  const DeviceInfo device = device_info();
  for (const char* text :
       {"spdnn:1024x40", "random:neurons=300-40-500,degree=power-law:1..300,values=uniform:-0.2..0.3",
        "random:neurons=777,layers=9,degree=24,bias=uniform:-1..1,values=uniform:-0.3..0.3"}) {
    const FeedForward network = read_network(text);
    for (const char* plan : {"staged", "staged l1", "staged unblocked", "staged compact_on_host", "staged keep_dead",
                             "staged copied", "staged copied_ahead", "staged copied_ahead compact_on_host",
                             "staged block_outputs=1024 staged_bytes=98304", "staged images=1"}) {
      for (const int count : {0, 1, 3000}) {
        INFO(text << ", " << plan << ", " << count << " images");
        const Bitmaps images =
            text[0] == 's' ? synthetic_digits(1024, 0, count) : random_images(count, network.neurons.front(), 3);
        InferenceExecutor inference = inference_on<DeviceProgram>(
            staged_program(stage_network(network, staged_plan(plan)), count, device.sm_count, device.architecture));
        check_categories(inference, network, images, /*runs=*/2);
      }
    }
  }
}

}  // namespace onchip
