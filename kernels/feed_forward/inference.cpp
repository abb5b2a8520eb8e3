// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/inference.hpp"

#include "kernels/recurrent/family_kernel.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <tuple>

namespace onchip {
namespace {

constexpr int kExactThreads = 1024, kOpenThreads = 512;
constexpr int kMostAhead = 4;

// As the kernels have them.
struct BlocksArguments {
  const std::byte* records;
  int first_layer, end_layer;
  const std::uint32_t* bitmaps;
  const std::uint16_t* input_neurons;
  const std::uint32_t *features, *ids, *count;
  std::uint32_t *out_features, *out_ids, *out_count, *categories;
  float clip, slack, shift;
  std::uint32_t one, round_up, settled;
};

struct ExactArguments {
  const std::uint32_t *weights, *slice_begin, *layer_slice;
  const float* biases;
  const std::uint32_t* rows;
  int layers, inputs;
  std::uint32_t buffer;
  const std::uint32_t* bitmaps;
  int words;
  const std::uint32_t *ids, *count;
  std::uint32_t* categories;
  float clip;
};

// What an image's bits say.
enum Bits : std::uint8_t { kUpper, kLower, kWideUpper, kWideLower, kExact, kBitmaps };

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { ONCHIP_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture) {
  if (architecture.size() < 5 || std::stoi(architecture.substr(3)) < 90) {
    throw InputError("plans of blocks need an sm_90 or newer; this is " + architecture);
  }
  std::optional<BlocksKernel> best;
  for (int ahead = std::min(kMostAhead, geometry.warp_blocks); ahead > 0; --ahead) {
    if (geometry.warp_blocks % ahead != 0) {
      continue;
    }
    CompileRequest request{"feed_forward_blocks", kFeedForwardBlocksSource, architecture, {}};
    Defines& defines = request.defines;
    define(defines, "groups", tile.groups);
    define(defines, "words", tile.words);
    define(defines, "warps", geometry.warps);
    define(defines, "blocks", geometry.warp_blocks);
    define(defines, "tiles", geometry.tiles);
    define(defines, "ahead", ahead);
    define(defines, "places", geometry.places);
    define(defines, "inputs", geometry.inputs);
    define(defines, "in_place", tile.in_place);
    define(defines, "settles", settles);
    BlocksKernel kernel{ahead, compile(request)};
    if (!best || kernel.kernel.resources.spill_bytes < best->kernel.resources.spill_bytes) {
      best = std::move(kernel);
    }
    if (!best->kernel.resources.spills()) {
      break;
    }
  }
  return *std::move(best);
}

CompiledKernel compile_exact(const std::string& architecture) {
  return compile({"feed_forward_exact", kFeedForwardExactSource, architecture, {}});
}

struct BlocksInference::State {
  BlocksPlan plan;
  BlocksGeometry geometry;
  int images = 0, sms = 0, spill_bytes = 0;
  std::map<std::tuple<int, int, bool, bool>, Kernel> kernels;
  std::optional<Kernel> exact, open;
  DeviceBuffer<std::byte> records;
  DeviceBuffer<std::uint16_t> input_neurons;
  DeviceBuffer<std::uint32_t> exact_weights, exact_slices, exact_layers, exact_rows;
  DeviceBuffer<float> exact_biases;
  DeviceBuffer<std::uint32_t> bitmaps, counts, bits;
  std::vector<DeviceBuffer<std::uint32_t>> features, ids;  // of the lists before a phase, in turn
  DeviceBuffer<std::uint32_t> open_narrow, open_wide;
  std::uint32_t* host = nullptr;  // counts, then bits
  BlocksArguments arguments{};
  ExactArguments exact_arguments{};
  float slack = 0, underflow = 0;
  Stream stream, beside, third;
  Event fork{cudaEventDisableTiming}, join{cudaEventDisableTiming};
  Event open_known{cudaEventDisableTiming}, upper_known{cudaEventDisableTiming};
  cudaGraphExec_t graph = nullptr;

  std::size_t bit_words() const { return (static_cast<std::size_t>(images) + 31) / 32; }
  std::size_t count_words() const { return plan.phases.size() + 2; }
  std::uint32_t* count_of(std::size_t list) const { return counts.data() + list; }
  std::uint32_t* bits_of(Bits which) const { return bits.data() + which * bit_words(); }
  std::size_t narrow_list() const { return plan.phases.size(); }

  State(const BlocksLayout& layout, const BlocksPlan& of_plan, const Bitmaps& of_images)
      : plan(of_plan),
        geometry(layout.geometry),
        images(of_images.images),
        records(std::span<const std::byte>(layout.records)),
        input_neurons(std::span<const std::uint16_t>(layout.input_neurons)),
        exact_weights(std::span<const std::uint32_t>(layout.exact.weight)),
        exact_slices(std::span<const std::uint32_t>(layout.exact.slice_begin)),
        exact_layers(std::span<const std::uint32_t>(layout.exact.layer_slice)),
        exact_rows(std::span<const std::uint32_t>(layout.exact.rows)),
        exact_biases(std::span<const float>(layout.exact.bias)),
        bitmaps(padded(of_images).size()),
        counts(of_plan.phases.size() + 2),
        bits(kBitmaps * bit_words()),
        open_narrow(of_images.images),
        open_wide(of_images.images),
        slack(layout.slack),
        underflow(layout.underflow) {
    const DeviceInfo device = device_info();
    sms = device.sm_count;
    const auto add = [&](const BlocksTile& tile, bool ends_settled) {
      const std::tuple key(tile.groups, tile.words, tile.in_place, ends_settled);
      if (!kernels.contains(key)) {
        const BlocksKernel kernel = compile_blocks(geometry, tile, ends_settled, device.architecture);
        spill_bytes += kernel.kernel.resources.spill_bytes;
        kernels.emplace(key, Kernel(kernel.kernel.cubin, "feed_forward_blocks"));
      }
    };
    std::int64_t words = 0;
    for (const BlocksPhase& phase : plan.phases) {
      add(phase.tile, false);
      words = std::max(words, geometry.feature_words(phase.tile));
    }
    add(plan.lower, layout.keeps_clipped);
    add(plan.wide, layout.keeps_clipped);
    settles = layout.keeps_clipped;
    const auto exact_cubin = std::make_shared<const LoadedCubin>(compile_exact(device.architecture).cubin);
    exact.emplace(exact_cubin, "feed_forward_exact");
    open.emplace(exact_cubin, "feed_forward_open");
    bitmaps.upload(padded(of_images));
    for (int i = 0; i < (plan.phases.size() > 2 ? 2 : plan.phases.size() > 1 ? 1 : 0); ++i) {
      features.emplace_back(static_cast<std::size_t>(words) * images);
      ids.emplace_back(images);
    }
    ONCHIP_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&host), 4 * (counts.size() + bits.size())));
    const float clip = layout.clip * layout.scale;
    arguments.records = records.data();
    arguments.bitmaps = bitmaps.data();
    arguments.input_neurons = input_neurons.data();
    arguments.clip = clip;
    arguments.one = to_bits(Precision::fp16, layout.scale);
    arguments.settled = to_bits(Precision::fp16, clip * (1 - 0x1p-10F));
    const auto widest = static_cast<int>(std::ranges::max(layout.exact.rows));
    exact_arguments = {.weights = exact_weights.data(),
                       .slice_begin = exact_slices.data(),
                       .layer_slice = exact_layers.data(),
                       .biases = exact_biases.data(),
                       .rows = exact_rows.data(),
                       .layers = geometry.layers,
                       .inputs = geometry.inputs,
                       .buffer = static_cast<std::uint32_t>(std::max(widest, geometry.inputs)),
                       .bitmaps = bitmaps.data(),
                       .words = bitmap_words(geometry.inputs),
                       .ids = open_wide.data(),
                       .count = count_of(narrow_list() + 1),
                       .categories = bits_of(kExact),
                       .clip = layout.clip};
  }

  ~State() {
    if (graph != nullptr) {
      cudaGraphExecDestroy(graph);
    }
    cudaFreeHost(host);
  }

  bool settles = false;

  static int bitmap_words(int neurons) { return (neurons + 127) / 128 * 4; }

  // Rows of whole 16 bytes.
  static std::vector<std::uint32_t> padded(const Bitmaps& images) {
    const int words = bitmap_words(images.neurons);
    std::vector<std::uint32_t> padded(static_cast<std::size_t>(words) * images.images);
    for (int i = 0; i < images.images; ++i) {
      std::ranges::copy(images.of(i), padded.begin() + static_cast<std::ptrdiff_t>(words) * i);
    }
    return padded;
  }

  void launch(const BlocksTile& tile, bool ends_settled, BlocksArguments launch_arguments, cudaStream_t on) const {
    void* arguments_of[] = {&launch_arguments};
    kernels.at({tile.groups, tile.words, tile.in_place, ends_settled})
        .launch(on, sms, 32 * geometry.warps, geometry.shared_bytes(tile), false, arguments_of);
  }

  // Bounds of all layers, of the images of a list.
  void bound(const BlocksTile& tile, bool upper, const std::uint32_t* list, const std::uint32_t* count, Bits to,
             cudaStream_t on) const {
    BlocksArguments of_bound = arguments;
    of_bound.first_layer = 0;
    of_bound.end_layer = geometry.layers;
    of_bound.ids = list;
    of_bound.count = count;
    of_bound.categories = bits_of(to);
    set_direction(of_bound, upper);
    launch(tile, settles, of_bound, on);
  }

  void set_direction(BlocksArguments& of_bound, bool upper) const {
    of_bound.slack = upper ? 1 + slack : 1 - slack;
    of_bound.shift = upper ? underflow : 0;
    of_bound.round_up = upper ? 0x1fff : 0;
  }

  void find_open(const std::uint32_t* list, const std::uint32_t* count, const std::uint32_t* wanted,
                 const std::uint32_t* known, std::uint32_t* to, std::uint32_t* to_count, cudaStream_t on) const {
    void* arguments_of[] = {&list, &count, &wanted, &known, &to, &to_count};
    open->launch(on, 4, kOpenThreads, 0, false, arguments_of);
  }

  // marks: events after each phase, the lower bounds, and the last phase; or none.
  void enqueue(std::span<const Event> marks) {
    const cudaStream_t on = stream.get(), aside = beside.get();
    std::size_t mark = 0;
    const auto record = [&] {
      if (!marks.empty()) {
        ONCHIP_CUDA_CHECK(cudaEventRecord(marks[mark++].get(), on));
      }
    };
    record();
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(count_of(1), 0, 4 * (counts.size() - 1), on));
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(bits.data(), 0, bits.bytes(), on));
    const std::size_t last = plan.phases.size() - 1;
    int first_layer = 0;
    for (std::size_t p = 0; p <= last; ++p) {
      BlocksArguments of_phase = arguments;
      set_direction(of_phase, true);
      of_phase.first_layer = first_layer;
      of_phase.end_layer = first_layer = plan.phases[p].end_layer;
      of_phase.count = count_of(p);
      of_phase.categories = bits_of(kUpper);
      if (p > 0) {
        of_phase.bitmaps = nullptr;
        of_phase.features = features[p % features.size()].data();
        of_phase.ids = ids[p % ids.size()].data();
      }
      if (p < last) {
        of_phase.out_features = features[(p + 1) % features.size()].data();
        of_phase.out_ids = ids[(p + 1) % ids.size()].data();
        of_phase.out_count = count_of(p + 1);
      } else {
        prove(p == 0 ? nullptr : of_phase.ids, of_phase.count, on, aside);
        record();
      }
      launch(plan.phases[p].tile, false, of_phase, on);
      record();
    }
    ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(on, join.get()));
    record();
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(host, counts.data(), counts.bytes(), cudaMemcpyDeviceToHost, on));
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(host + counts.size(), bits.data(), bits.bytes(), cudaMemcpyDeviceToHost, on));
  }

  // Which images of the list are alive at the end: by the lower bound, then, beside the last phase, by what is finer.
  void prove(const std::uint32_t* list, const std::uint32_t* count, cudaStream_t on, cudaStream_t aside) {
    bound(plan.lower, false, list, count, kLower, on);
    ONCHIP_CUDA_CHECK(cudaEventRecord(fork.get(), on));
    ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(aside, fork.get()));
    std::uint32_t* const narrow_count = count_of(narrow_list());
    find_open(list, count, nullptr, bits_of(kLower), open_narrow.data(), narrow_count, aside);
    ONCHIP_CUDA_CHECK(cudaEventRecord(open_known.get(), aside));
    ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(third.get(), open_known.get()));
    bound(plan.wide, true, open_narrow.data(), narrow_count, kWideUpper, third.get());
    ONCHIP_CUDA_CHECK(cudaEventRecord(upper_known.get(), third.get()));
    bound(plan.wide, false, open_narrow.data(), narrow_count, kWideLower, aside);
    ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(aside, upper_known.get()));
    find_open(open_narrow.data(), narrow_count, bits_of(kWideUpper), bits_of(kWideLower), open_wide.data(),
              narrow_count + 1, aside);
    void* arguments_of[] = {&exact_arguments};
    exact->launch(aside, sms, kExactThreads, 2 * sizeof(float) * exact_arguments.buffer, false, arguments_of);
    ONCHIP_CUDA_CHECK(cudaEventRecord(join.get(), aside));
  }
};

BlocksInference::BlocksInference(const BlocksLayout& layout, const BlocksPlan& plan, const Bitmaps& images) {
  if (!layout.monotone) {
    throw InputError(
        "plans of blocks prove which images are alive by bounds, for which no weight may be negative, and no bias "
        "positive");
  }
  if (images.neurons != layout.geometry.inputs) {
    throw InputError("the images have " + std::to_string(images.neurons) + " neurons; the network's input has " +
                     std::to_string(layout.geometry.inputs));
  }
  state_ = std::make_unique<State>(layout, plan, images);
  State& state = *state_;
  const std::vector<std::uint32_t> counts{static_cast<std::uint32_t>(images.images)};
  state.counts.upload(counts);
  cudaGraph_t graph = nullptr;
  ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(state.stream.get(), cudaStreamCaptureModeThreadLocal));
  state.enqueue({});
  ONCHIP_CUDA_CHECK(cudaStreamEndCapture(state.stream.get(), &graph));
  ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&state.graph, graph, 0));
  cudaGraphDestroy(graph);
}

BlocksInference::~BlocksInference() = default;

int BlocksInference::spill_bytes() const {
  return state_->spill_bytes;
}

Inference BlocksInference::infer() {
  const auto begin = std::chrono::steady_clock::now();
  ONCHIP_CUDA_CHECK(cudaGraphLaunch(state_->graph, state_->stream.get()));
  state_->stream.synchronize();
  const State& state = *state_;
  const std::uint32_t* const bits = state.host + state.counts.size();
  const std::size_t words = state.bit_words();
  Inference inference;
  bool contradicts = false;
  for (std::size_t word = 0; word < words; ++word) {
    const std::uint32_t proven =
        bits[kLower * words + word] | bits[kWideLower * words + word] | bits[kExact * words + word];
    contradicts = contradicts || (proven & ~bits[kUpper * words + word]) != 0;
    for (std::uint32_t left = proven; left != 0; left &= left - 1) {
      inference.categories.push_back(static_cast<int>(32 * word) + std::countr_zero(left));
    }
  }
  inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (contradicts) {
    throw CudaError("an image is alive by its lower bound and dead by its upper bound: the kernels are wrong");
  }
  inference.entering.assign(state.host, state.host + state.plan.phases.size());
  inference.open_narrow = static_cast<int>(state.host[state.narrow_list()]);
  inference.open_wide = static_cast<int>(state.host[state.narrow_list() + 1]);
  return inference;
}

std::vector<double> BlocksInference::phase_ms() {
  const std::vector<Event> marks(state_->plan.phases.size() + 3);
  state_->enqueue(marks);
  state_->stream.synchronize();
  std::vector<double> times;
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    float ms = 0;
    ONCHIP_CUDA_CHECK(cudaEventElapsedTime(&ms, marks[i].get(), marks[i + 1].get()));
    times.push_back(ms);
  }
  return times;
}

}  // namespace onchip
