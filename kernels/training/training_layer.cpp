// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_layer.hpp"

#include "kernels/runtime/cublas.hpp"
#include "kernels/runtime/device_program.hpp"
#include "kernels/runtime/loaded_cubin.hpp"
#include "kernels/runtime/sources.hpp"
#include "kernels/training/graph_switch.hpp"
#include "kernels/training/sparse_program.hpp"
#include "model/base/error.hpp"
#include "model/training/memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace onchip {
namespace {

static_assert(Cublas::kWorkspaceBytes == kProductWorkspace && kArrayAlignment == kMemoryAlignment,
              "what is allocated is what is predicted");

constexpr std::size_t kCallers = ~std::size_t{0};
constexpr int kSizes = 16;  // of products whose rows only the device knows

// In host memory: kernels write it there, and who reads it copies nothing and waits for nothing.
std::uint32_t* new_report() {
  void* report = nullptr;
  ONCHIP_CUDA_CHECK(cudaHostAlloc(&report, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped));
  return new (report) std::uint32_t{0};
}

// More than there are halves that run at once or in graphs: each has one of its own, zero before and behind it.
constexpr std::size_t kStatuses = 1 << 16;

// A stream for what runs beside the caller's, and events to fork and to join.
struct BesideStream {
  Stream stream;
  Event fork{cudaEventDisableTiming}, join{cudaEventDisableTiming};
};

// What layers share. Never destroyed: graphs may still run, and CUDA may be gone before.
struct Shared {
  std::mutex mutex;
  struct Device {
    Cublas cublas{false, 0};
    Kernel outcome{compile(outcome_request(device_info().architecture)).cubin, "outcome"};
    std::uint32_t* report = new_report();
    DeviceBuffer<std::uint32_t> statuses{std::vector<std::uint32_t>(kStatuses)};
    std::size_t halves = 0;                                // that have been enqueued
    std::unique_ptr<const GraphSwitch> graph_switch = {};  // where there are lengths, and CUDA has it
    std::map<cudaStream_t, BesideStream> beside;  // of each caller's stream, so that no capture reaches another's
  };
  std::map<int, Device> devices;
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

Shared::Device& shared_of(int device) {
  return shared().devices.try_emplace(device).first->second;
}

const BesideStream& beside_of(int device, cudaStream_t stream) {
  const RelaxedCapture relaxed;  // a stream that is captured at this moment has nothing to do with it
  return shared_of(device).beside[stream];
}

void take_report(std::uint32_t& report) {
  const std::uint32_t found = std::atomic_ref(report).exchange(0);
  if (found == 2) {
    throw CudaError("a length of a training step's sample is not from 1 to its steps");
  }
  if (found != 0) {
    throw CudaError("a training step gave up waiting for the state of another SM; what it has computed is NaN");
  }
}

}  // namespace

CompileRequest outcome_request(const std::string& architecture) {
  return {"outcome", kOutcomeSource, architecture, {}};
}

ProgramNode outcome_node(int kernel, const TrainingSize& size, std::span<const TrainingProgram> directions,
                         std::span<const std::vector<std::byte*>> places, TrainingHalf half, std::int64_t rows,
                         std::uint32_t* status, std::uint32_t* report) {
  using A = TrainingArrays;
  constexpr std::array kForward{&A::y, &A::cells, &A::kept, &A::hn, &A::cn};
  constexpr std::array kBackward{&A::dx, &A::dw_ih, &A::dw_hh, &A::db, &A::db_hh, &A::dh0, &A::dc0};
  const std::span<int A::*const> written =
      half == TrainingHalf::forward ? std::span<int A::*const>(kForward) : kBackward;
  OutcomeArguments arguments{.status = status, .report = report, .written = {}};
  auto* next = arguments.written;
  for (std::size_t direction = 0; direction < directions.size(); ++direction) {
    for (const TrainingArrays& arrays : directions[direction].layers) {
      for (std::size_t i = direction > 0 ? 1 : 0; i < written.size(); ++i) {  // the first is of all directions
        const int array = arrays.*written[i];
        const bool is_of_rows = i < (half == TrainingHalf::forward ? 3 : 1);
        auto count = static_cast<std::int64_t>(directions[direction].program.arrays[array].bytes / 2);
        count = is_of_rows && rows > 0 ? count / (size.steps * size.batch) * rows : count;
        if (std::byte* const place = places[direction][array]; place != nullptr) {
          *next++ = {reinterpret_cast<unsigned short*>(place), count};
        }
      }
    }
  }
  return launch_node("outcome", kernel, 1, 1024, 0, arguments);
}

namespace {

// Whether two directions' recurrences run at once.
bool is_beside(const TrainingProgram& training) {
  const auto* const dense = std::get_if<DenseTrainingPlan>(&training.plan);
  return dense != nullptr && dense->beside;
}

bool is_stack(const TrainingProgram& training) {
  const auto* const dense = std::get_if<DenseTrainingPlan>(&training.plan);
  return dense != nullptr && dense->stash == Stash::none;
}

int backward_split(const TrainingPlan& plan) {
  const auto* const dense = std::get_if<DenseTrainingPlan>(&plan);
  return dense != nullptr ? dense->backward.split : std::get<SparseTrainingPlan>(plan).backward.split;
}

}  // namespace

TrainingLayer::TrainingLayer(const TrainingSize& size, Precision precision, const TrainingPlan& plan, const Chip& chip,
                             const SparseMatrix* mask)
    : size_(size) {
  const DeviceInfo info = device_info();
  device_ = current_device();
  for (int direction = 0; direction < size.directions; ++direction) {
    TrainingSize of_direction = size;
    of_direction.is_reverse = size.is_reverse || direction == 1;
    training_.push_back(training_program(of_direction, precision, plan, mask, chip, info.architecture));
  }
  const KernelProgram& program = training().program;
  const std::lock_guard lock(shared().mutex);
  Shared::Device& of_device = shared_of(device_);
  if (size.length_bytes > 0 && !of_device.graph_switch && GraphSwitch::is_known()) {
    of_device.graph_switch = std::make_unique<const GraphSwitch>(info.architecture);
  }
  for (const ProgramKernel& kernel : program.kernels) {  // of all directions
    kernels_.emplace_back(loaded_cubin(kernel.request), kernel.entry);
  }

  std::vector<std::pair<int, std::size_t>> of_both;
  for (int array = training().own_arrays; array < static_cast<int>(program.arrays.size()); ++array) {
    if (const auto contents = program.arrays[array].contents; !contents.empty()) {
      constants_.emplace(array, contents);
    } else if (array != program.results) {
      of_both.emplace_back(array, program.arrays[array].bytes);
    }
  }
  for (const ProgramNode& node : program.nodes(std::vector<std::byte*>(program.arrays.size()))) {
    has_products_ |= node.product.has_value();
    waits_ |= node.cooperative;
    if (!node.cooperative) {
      continue;
    }
    const Kernel& kernel = kernels_[node.kernel];
    const int split = node.label.starts_with("backward") ? backward_split(plan) : 1;
    const int at_once = split > 1 ? split * kernel.clusters(split, node.threads, node.shared_bytes)
                                  : info.sm_count * kernel.blocks_per_sm(node.threads, node.shared_bytes);
    const int needed = node.blocks * (is_beside(training()) ? 2 : 1);
    if (at_once < needed) {
      throw DoesNotFit("the device holds " + std::to_string(at_once) + " of " + std::to_string(needed) +
                       " blocks at once with the plan '" + to_string(plan) + "'");
    }
  }
  workspace_ = laid_out(of_both);
  if (training().nodes_of_rows) {
    forward_workspace_ = laid_out(training().forward_arrays);
  }
}

TrainingLayer::Workspace TrainingLayer::laid_out(const std::vector<std::pair<int, std::size_t>>& arrays) const {
  const auto take = [](std::size_t& from, std::size_t bytes) {
    return std::exchange(from, from + (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment);
  };
  Workspace workspace{.offsets = std::vector<std::size_t>(training().program.arrays.size(), kCallers)};
  for (const auto& [array, bytes] : arrays) {
    workspace.offsets[array] = take(workspace.direction_bytes, bytes);
  }
  take(workspace.bytes, workspace.direction_bytes * training_.size());
  workspace.products_offset = take(workspace.bytes, has_products_ ? Cublas::kWorkspaceBytes : 0);
  return workspace;
}

void TrainingLayer::run(const ProgramNode& node, cudaStream_t stream, std::byte* products) const {
  const bool is_wanted = node.product ? node.product->c != nullptr : node.kernel >= 0 || node.filled.data() != nullptr;
  if (!is_wanted) {
    return;
  }
  const Cublas& cublas = shared_of(device_).cublas;
  if (node.product) {
    cublas.use(stream, products);
  }
  onchip::enqueue(node, kernels_, &cublas, stream);
}

// Of a half of a direction. `ways`: with other rows of products, of which a graph chooses.
struct TrainingLayer::Nodes {
  std::vector<ProgramNode> all = {};
  std::vector<std::vector<ProgramNode>> ways = {};
  const int* rows = nullptr;
  int unit = 0;
};

TrainingLayer::Nodes TrainingLayer::nodes_of(std::size_t direction, TrainingHalf half,
                                             const std::vector<std::byte*>& places, std::int64_t rows, bool keeps,
                                             bool has_ways) const {
  const TrainingProgram& of = training_[direction];
  const std::byte* const status = places[of.program.results];
  const auto of_half = [&](std::vector<ProgramNode> all) {
    std::erase_if(all, [&](const ProgramNode& node) {
      const bool clears_status = node.filled.data() == status;
      const bool is_unwanted = node.label == "dW_hh mask" && places[of.arrays.dw_hh] == nullptr;
      return clears_status || half_of(node.label) != half || is_unwanted;
    });
    return all;
  };
  if (rows > 0) {
    return {.all = of_half(of.nodes_of_rows(places, {.keeps = keeps, .packed = rows, .products = rows}))};
  }
  if (!has_ways) {
    return {.all = of_half(keeps ? of.program.nodes(places) : of.nodes_of_rows(places, {.keeps = false}))};
  }
  const std::int64_t all_rows = size_.steps * size_.batch, unit = (all_rows + kSizes - 1) / kSizes;
  Nodes nodes{.all = of_half(of.nodes_of_rows(places, {.keeps = keeps, .unit = unit})), .unit = static_cast<int>(unit)};
  for (std::int64_t products = unit; products < all_rows + unit; products += unit) {
    const TrainingRows of_way{.keeps = keeps, .products = std::min(products, all_rows), .unit = unit};
    nodes.ways.push_back(of_half(of.nodes_of_rows(places, of_way)));
  }
  const int ranks = half == TrainingHalf::forward ? of.ranks : of.ranks_back;
  nodes.rows = array_at<int>(places, ranks) + 2 * size_.batch + size_.steps;  // behind the ranks, the last offset
  return nodes;
}

void TrainingLayer::run(const Nodes& of, std::size_t first, std::size_t last, cudaStream_t stream,
                        std::byte* products) const {
  while (first < last) {
    std::size_t end = first;  // of products that follow each other
    while (!of.ways.empty() && end < last && of.all[end].product) {
      ++end;
    }
    if (end == first) {
      run(of.all[first++], stream, products);
      continue;
    }
    shared_of(device_).graph_switch->enqueue(stream, of.rows, of.unit, static_cast<int>(of.ways.size()),
                                             [&](int way, cudaStream_t on) {
                                               for (std::size_t i = first; i < end; ++i) {
                                                 run(of.ways[static_cast<std::size_t>(way)][i], on, products);
                                               }
                                             });
    first = end;
  }
}

void TrainingLayer::enqueue(cudaStream_t stream, TrainingHalf half, std::vector<std::vector<std::byte*>> places,
                            std::int64_t rows, std::byte* workspace) const {
  if (rows != 0 && size_.length_bytes == 0) {
    throw InputError("packed rows go with lengths");
  }
  if (rows != 0 && (rows < size_.batch || rows > size_.steps * size_.batch)) {
    throw InputError("there are " + std::to_string(rows) + " packed rows; expected " + std::to_string(size_.batch) +
                     " to " + std::to_string(size_.steps * size_.batch));
  }
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  const std::lock_guard lock(shared().mutex);  // a cuBLAS handle is one stream's at a time
  Shared::Device& device = shared_of(device_);
  take_report(*device.report);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (device.graph_switch && size_.length_bytes > 0 && rows == 0) {
    ONCHIP_CUDA_CHECK(cudaStreamIsCapturing(stream, &capture));
  }
  std::uint32_t* const status = device.statuses.data() + device.halves++ % kStatuses;
  const bool keeps = half == TrainingHalf::backward || places[0][training().arrays.kept] != nullptr;
  if (!keeps && !has_forward_alone()) {
    throw InputError("a forward with a mask keeps what its backward needs: 'kept' is null");
  }
  const Workspace& of_workspace = keeps ? workspace_ : forward_workspace_;
  std::vector<Nodes> nodes;  // of each direction
  for (std::size_t direction = 0; direction < training_.size(); ++direction) {
    std::vector<std::byte*>& of_direction = places[direction];
    for (std::size_t array = 0; array < of_direction.size(); ++array) {
      if (of_workspace.offsets[array] != kCallers) {
        of_direction[array] = workspace + direction * of_workspace.direction_bytes + of_workspace.offsets[array];
      }
    }
    for (const auto& [array, constant] : constants_) {
      of_direction[static_cast<std::size_t>(array)] = constant.data();
    }
    of_direction[training_[direction].program.results] = reinterpret_cast<std::byte*>(status);
    nodes.push_back(nodes_of(direction, half, of_direction, rows, keeps, capture == cudaStreamCaptureStatusActive));
    if (!keeps) {
      of_direction[training().arrays.kept] = nullptr;  // not among the results
    }
  }
  run(nodes, stream, workspace + of_workspace.products_offset);
  if (!waits_) {
    return;
  }
  const ProgramNode outcome = outcome_node(0, size_, training_, places, half, rows, status, device.report);
  onchip::enqueue(outcome, {&device.outcome, 1}, nullptr, stream);
}

void TrainingLayer::run_stack(const std::vector<ProgramNode>& nodes, cudaStream_t stream, std::byte* products) const {
  const BesideStream& beside = beside_of(device_, stream);
  bool is_forked = false;
  for (const ProgramNode& node : nodes) {
    if (node.stream > 0 && !is_forked) {
      beside.fork.record(stream);
      ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(beside.stream.get(), beside.fork.get()));
      is_forked = true;
    }
    if (node.cooperative && std::exchange(is_forked, false)) {
      beside.join.record(beside.stream.get());
      ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(stream, beside.join.get()));
    }
    run(node, node.stream > 0 ? beside.stream.get() : stream, products);
  }
}

void TrainingLayer::run(const std::vector<Nodes>& nodes, cudaStream_t stream, std::byte* products) const {
  if (is_stack(training())) {
    run_stack(nodes[0].all, stream, products);
    return;
  }
  // What is before a recurrence of each direction, so that the two recurrences are beside each other.
  std::vector<std::size_t> done(nodes.size());
  const auto is_done = [&](std::size_t of) { return done[of] == nodes[of].all.size(); };
  while (!is_done(0)) {
    for (std::size_t of = 0; of < nodes.size(); ++of) {
      const std::vector<ProgramNode>& all = nodes[of].all;
      const auto next = std::ranges::find_if(all.begin() + static_cast<std::ptrdiff_t>(done[of]), all.end(),
                                             &ProgramNode::cooperative);
      const auto end = static_cast<std::size_t>(next - all.begin());
      run(nodes[of], std::exchange(done[of], end), end, stream, products);
    }
    if (is_done(0)) {
      return;
    }
    if (nodes.size() == 1) {
      run(nodes[0].all[done[0]++], stream, products);
    } else {
      run_recurrences(nodes[0].all[done[0]++], nodes[1].all[done[1]++], stream, products);
    }
  }
}

void TrainingLayer::run_recurrences(const ProgramNode& first, const ProgramNode& second, cudaStream_t stream,
                                    std::byte* products) const {
  if (!is_beside(training())) {
    run(first, stream, products);
    run(second, stream, products);
    return;
  }
  const BesideStream& beside = beside_of(device_, stream);
  beside.fork.record(stream);
  ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(beside.stream.get(), beside.fork.get()));
  run(first, stream, products);
  run(second, beside.stream.get(), products);
  beside.join.record(beside.stream.get());
  ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(stream, beside.join.get()));
}

void TrainingLayer::check(cudaStream_t stream) {
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  const std::lock_guard lock(shared().mutex);
  take_report(*shared_of(current_device()).report);
}

}  // namespace onchip
