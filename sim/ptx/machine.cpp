// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/machine.hpp"

#include "model/base/error.hpp"
#include "sim/ptx/lanes.hpp"
#include "sim/ptx/warp.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace onchip::ptx {

// ---- global memory --------------------------------------------------------------------------------------------------

void GlobalMemory::insert(std::span<const std::byte> bytes, bool writable) {
  if (bytes.empty()) {
    return;
  }
  const auto begin = reinterpret_cast<u64>(bytes.data());
  ranges_.push_back({begin, begin + bytes.size(), writable});
  std::ranges::sort(ranges_, {}, &Range::begin);
  last_ = 0;
}

void GlobalMemory::remove(const void* begin) {
  std::erase_if(ranges_, [&](const Range& range) { return range.begin == reinterpret_cast<u64>(begin); });
  last_ = 0;
}

std::byte* GlobalMemory::find(u64 address, std::size_t bytes, bool writes) const {
  const auto holds = [&](const Range& range) {
    return address >= range.begin && address < range.end && bytes <= range.end - address;
  };
  if (last_ >= ranges_.size() || !holds(ranges_[last_])) {
    const auto after = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    if (after == ranges_.begin() || !holds(*(after - 1))) {
      return nullptr;
    }
    last_ = static_cast<std::size_t>(after - ranges_.begin()) - 1;
  }
  return writes && !ranges_[last_].writable ? nullptr : reinterpret_cast<std::byte*>(address);
}

// ---- launches -------------------------------------------------------------------------------------------------------

namespace {

// Instructions of a warp before the next one's turn.
constexpr int kTurn = 512;

// The last ones are of dimensions that no launch has.
constexpr std::size_t kFlat = 8;
u64 special_value(u64 which, const Block& block, const Warp& warp, int lane) {
  const Launch& launch = block.grid.launch;
  const std::size_t in_cluster = block.cluster.blocks.size();
  const u32 one = 1u << lane, below = one - 1;
  const auto of = [](int value) { return static_cast<u64>(value); };
  if (which >= kSpecials.size() - kFlat) {
    return which < kSpecials.size() - kFlat / 2 ? 1 : 0;  // how many there are, and which
  }
  const std::array<u64, kSpecials.size() - kFlat> values{of(kLanes * warp.number + lane),
                                                         of(launch.threads),
                                                         of(block.number),
                                                         of(launch.blocks),
                                                         of(lane),
                                                         of(warp.number),
                                                         of(block.rank),
                                                         of(block.rank),
                                                         in_cluster,
                                                         in_cluster,
                                                         of(block.number) / in_cluster,
                                                         one,
                                                         below,
                                                         one | below,
                                                         u32{~(one | below)},
                                                         u32{~below}};
  return values[which];
}

// The registers that are the same in every warp. What the kernel has not written is garbage, as on a GPU.
std::vector<std::byte> common_registers(const Kernel& kernel, u64 variables) {
  constexpr std::byte kGarbage{0xa5};
  std::vector<std::byte> registers(kernel.register_bytes, kGarbage);
  for (const Filling& filling : kernel.fillings) {
    const u64 value = filling.what == Filling::What::global_address ? variables + filling.value : filling.value;
    if (filling.bytes == 0) {  // a predicate
      std::memcpy(&registers[filling.at], &value, 4);
    } else if (filling.what != Filling::What::special) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        std::memcpy(&registers[filling.at + lane * filling.bytes], &value, filling.bytes);
      }
    }
  }
  return registers;
}

void fill_special(Warp& warp) {
  for (const Filling& filling : warp.block.grid.kernel.fillings) {
    if (filling.what == Filling::What::special) {
      for (int lane = 0; lane < kLanes; ++lane) {
        warp.lanes<u32>(filling.at)[lane] = static_cast<u32>(special_value(filling.value, warp.block, warp, lane));
      }
    }
  }
}

// Blocks that run at once: all of a cooperative launch, else those of one cluster.
class Residents {
 public:
  Residents(Grid& grid, const std::vector<std::byte>& common, std::vector<std::byte>& registers, int first, int count)
      : clusters_(static_cast<std::size_t>(count / grid.kernel.cluster)) {
    const Kernel& kernel = grid.kernel;
    const Launch& launch = grid.launch;
    const int warps = (launch.threads + kLanes - 1) / kLanes;
    blocks_.reserve(static_cast<std::size_t>(count));
    const std::size_t register_bytes = (kernel.register_bytes + 63) / 64 * 64;
    registers.resize(register_bytes * static_cast<std::size_t>(count * warps) + 64);
    std::byte* next = registers.data() + (64 - reinterpret_cast<u64>(registers.data()) % 64) % 64;
    for (int i = 0; i < count; ++i) {
      Cluster& cluster = clusters_[static_cast<std::size_t>(i / kernel.cluster)];
      blocks_.push_back(Block{grid, cluster, first + i, i % kernel.cluster});
      Block& block = blocks_.back();
      cluster.blocks.push_back(&block);
      cluster.live_warps += warps;
      block.live_warps = warps;
      block.shared.resize(kernel.shared_bytes + launch.dynamic_shared_bytes);
      block.written.resize(block.shared.size());
    }
    for (Block& block : blocks_) {
      for (int i = 0; i < warps; ++i, next += register_bytes) {
        block.warps.push_back(Warp{block, i});
        Warp& warp = block.warps.back();
        const int lanes = std::min(kLanes, launch.threads - kLanes * i);
        warp.existing = warp.live = lanes == kLanes ? ~0u : (1u << lanes) - 1;
        warp.registers = next;
        warp.local.resize(kernel.local_bytes * kLanes, std::byte{0xa5});
        if (first == 0) {  // later blocks find the constants there, and garbage of the blocks before
          std::memcpy(warp.registers, common.data(), common.size());
        }
        fill_special(warp);
      }
    }
  }

  void run_all() {
    for (bool is_done = false; !is_done;) {
      bool any = false;
      is_done = true;
      for (Block& block : blocks_) {
        for (Warp& warp : block.warps) {
          any |= run(warp, kTurn);
          is_done &= warp.state == Warp::State::done;
        }
      }
      Grid& grid = blocks_.front().grid;
      if (grid.counts.warp_instructions > grid.launch.most_instructions) {
        throw Fault(grid.module.name + ": more than " + std::to_string(grid.launch.most_instructions) +
                    " instructions; " + first_stuck());
      }
      if (!any && !is_done) {
        throw Fault(grid.module.name + ": all threads wait; " + first_stuck());
      }
    }
  }

 private:
  std::string first_stuck() const {
    for (const Block& block : blocks_) {
      for (const Warp& warp : block.warps) {
        if (warp.state != Warp::State::done) {
          return describe(warp);
        }
      }
    }
    return "";
  }

  std::vector<Cluster> clusters_;
  std::vector<Block> blocks_;
};

}  // namespace

Machine::Machine(Module module) : module_(std::move(module)) {
  if (!module_.variables.empty()) {
    memory_.add(std::span<std::byte>(module_.variables));
  }
}

const Kernel& Machine::find(std::string_view name) const {
  const auto found = module_.kernels.find(name);
  if (found == module_.kernels.end()) {
    throw InputError(module_.name + ": there is no kernel '" + std::string(name) + "'");
  }
  return found->second;
}

Counts Machine::launch(std::string_view name, const Launch& launch) {
  const Kernel& kernel = find(name);
  const auto refuse = [&](const std::string& what) {
    throw InputError(module_.name + ": kernel '" + std::string(name) + "' " + what);
  };
  constexpr int kMostThreads = 1024;
  constexpr std::size_t kMostShared = std::size_t{1} << 20;
  if (launch.threads < 1 || launch.threads > std::min(kMostThreads, kernel.most_threads)) {
    refuse("cannot have " + std::to_string(launch.threads) + " threads in a block");
  }
  if (launch.blocks < 1 || launch.blocks % kernel.cluster != 0) {
    refuse("cannot have " + std::to_string(launch.blocks) + " blocks in clusters of " + std::to_string(kernel.cluster));
  }
  if (launch.parameters.size() != kernel.parameter_bytes) {
    refuse("has " + std::to_string(kernel.parameter_bytes) + " bytes of parameters, not " +
           std::to_string(launch.parameters.size()));
  }
  if (launch.dynamic_shared_bytes > kMostShared || kernel.shared_bytes > kMostShared) {
    refuse("asks for more shared memory than any chip has");
  }
  Grid grid{module_, kernel, launch, memory_, reinterpret_cast<u64>(module_.variables.data()), {}};
  if (launch.banks) {
    grid.banks.emplace(*launch.banks);
  }
  const std::vector<std::byte> common = common_registers(kernel, grid.variables);
  std::vector<std::byte> registers;  // of all warps that run at once
  const int at_once = launch.cooperative ? launch.blocks : kernel.cluster;
  for (int first = 0; first < launch.blocks; first += at_once) {
    Residents(grid, common, registers, first, at_once).run_all();
  }
  return grid.counts;
}

}  // namespace onchip::ptx
