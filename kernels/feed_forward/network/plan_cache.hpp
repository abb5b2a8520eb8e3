// SPDX-License-Identifier: Apache-2.0
// What planning a network found, on disk beside compiled kernels (cubin_cache.hpp): the plan, and the packed layout,
// each in a file of its own under a hash of the network's layers, of all else that decides it, and of this build of the
// library. A layout, which may be large, is written as it is:
//   "onchip plan 1\n", the whole key, the value, and a checksum of all that comes before it
// A file that is torn, of another key, or that cannot be written, is no error: what it has is made anew. None is larger
// than half of what all caches may have (cubin_cache.hpp).
#pragma once

#include "model/base/found.hpp"
#include "model/chip/chip.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/structure/structure.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace onchip {

struct PackedBlocks {
  StructureSummary found;
  BlocksLayout layout;
};

// A name of these images, by how many of them are alive.
std::string numbers_of(const Activity& activity);

class PlanCache {
 public:
  // Makes all layers, for their hash, unless there is no cache.
  explicit PlanCache(const FeedForward& network);

  // The text of a plan, by what is asked of it, the chip, and a name of the images; or why there is none.
  Found<std::string> plan(const std::string& what, const Chip& chip, const std::string& images,
                          const std::function<Found<std::string>()>& make);
  // how: all that the layout depends on but the network. What make() throws is not kept.
  PackedBlocks blocks(const std::string& how, const std::function<PackedBlocks()>& make);

  bool has_found() const { return found_; }  // all that was asked for

 private:
  template <typename Value, typename Load, typename Store>
  Value kept(const std::string& what, const std::function<Value()>& make, const Load& load, const Store& store);

  std::filesystem::path directory_;
  std::string network_;
  bool found_ = true;
};

}  // namespace onchip
