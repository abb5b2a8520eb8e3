// SPDX-License-Identifier: Apache-2.0
// What needs no GPU, then (tag [gpu]) what does.
#include "kernels/baselines/baseline.hpp"
#include "kernels/baselines/product.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/runtime/library.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace onchip {
namespace {

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

std::string refusal_of(auto&& action) {
  return error_of<BaselineRefusal>(action);
}

Recurrent network_of(Cell cell, Precision precision, int hidden, int batch, int steps = 4) {
  return {cell, precision, hidden, batch, steps, 0.2};
}

std::vector<std::string> names_of(const Recurrent& network) {
  std::vector<std::string> names;
  for (const BaselineCandidate& candidate : baseline_candidates(network)) {
    names.push_back(candidate.name);
  }
  return names;
}

// Tensor cores want padding: a batch of multiples of 8, units that make whole words.
TEST_CASE("baselines are tried as the network is and padded where that helps, each under a name of its own") {
  struct Tried {
    Recurrent network;
    std::size_t count;
    std::vector<std::string> has, parts_of_none;
  };
  constexpr auto fp16 = Precision::fp16, fp32 = Precision::fp32;
  for (const auto& [network, count, has, parts_of_none] : {
           Tried{network_of(Cell::relu, fp16, 64, 3),
                 10 + 8 + 12,
                 {"cudnn STANDARD B=3", "cudnn STANDARD B=3 graph", "cudnn STANDARD B=8 graph",
                  "cudnn PERSIST_STATIC B=8", "cudnn PERSIST_STATIC_SMALL_H B=3", "cublas GEMM TN B=3",
                  "cublas GEMM NN B=8 graph", "cusparse SpMM CSR_ALG2 row-major graph",
                  "cusparse SpMM CSR_ALG3 column-major"},
                 {"H="}},
           Tried{network_of(Cell::relu, fp16, 64, 8), 5 + 4 + 12, {}, {"H="}},
           Tried{network_of(Cell::relu, fp16, 320, 8), 5 + 4 + 12, {}, {"H="}},
           Tried{network_of(Cell::relu, fp32, 64, 3), 0, {"cublas GEMM TN B=3"}, {"cublas GEMM TN B=8"}},
           // A batch of one: vectors, too, and one order.
           Tried{network_of(Cell::relu, fp16, 64, 1),
                 0,
                 {"cusparse SpMV CSR_ALG2 graph", "cusparse SpMM CSR_ALG1"},
                 {"cusparse SpMM CSR_ALG1 row-major"}},
           Tried{network_of(Cell::relu, fp16, 64, 2), 0, {}, {"cusparse SpMV CSR_ALG2"}},
           Tried{network_of(Cell::relu, fp16, 261, 8),
                 0,
                 {"cublas GEMM TN B=8 graph", "cublas GEMM TN B=8 H=264 graph", "cudnn PERSIST_STATIC B=8",
                  "cudnn PERSIST_STATIC B=8 H=264", "cudnn STANDARD B=8 H=320 graph"},
                 {}},
           Tried{network_of(Cell::lstm, Precision::bf16, 93, 32), 0, {}, {}},
       }) {
    const std::vector<std::string> names = names_of(network);
    CAPTURE(describe(network));
    CHECK((count == 0 || names.size() == count));
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    for (const std::string& name : has) {
      CAPTURE(name);
      CHECK(std::ranges::count(names, name) == 1);
    }
    for (const std::string& none : parts_of_none) {
      CHECK(std::ranges::none_of(names, [&](const std::string& name) { return says(name, none); }));
    }
  }
  for (const std::string& name : names_of(network_of(Cell::relu, fp32, 260, 8))) {
    CHECK((!says(name, "H=") || name.starts_with("cudnn")));
  }
}

TEST_CASE("the likely fastest are few, of every library, and graphs where there are any") {
  for (const int batch : {1, 4, 8, 32}) {
    std::set<std::string> libraries;
    int likely = 0;
    for (const BaselineCandidate& candidate :
         baseline_candidates(network_of(Cell::lstm, Precision::fp16, 64, batch, 4))) {
      if (candidate.likely) {
        CAPTURE(candidate.name);
        libraries.insert(candidate.library());
        ++likely;
        CHECK((candidate.name.ends_with(" graph") || says(candidate.name, "PERSIST_STATIC")));
      }
    }
    CHECK(libraries == std::set<std::string>{"cublas", "cudnn", "cusparse"});
    CHECK(likely <= 9);
  }
}

TEST_CASE("a baseline and its graph are made once, and anew when both are gone") {
  class Idle final : public Baseline {
   public:
    void enqueue(cudaStream_t) override {}
    int steps() const override { return 3; }
    std::string settings() const override { return "idle"; }
    void poison_results() override {}
    void check_results() const override {}
  };
  int made = 0;
  const auto make = [&](const Recurrent&, const SparseMatrix&) {
    ++made;
    return std::make_unique<Idle>();
  };
  const std::vector<BaselineCandidate> both = with_graphs({{"idle", make}});
  REQUIRE(both.size() == 2);
  CHECK(both[1].name == "idle graph");
  const Recurrent network = network_of(Cell::relu, Precision::fp16, 8, 1, 3);
  {
    const auto first = both[0].make(network, {}), second = both[0].make(network, {});
    CHECK(made == 1);
    CHECK(first->settings() == "idle");
    CHECK(second->steps() == 3);
  }
  both[0].make(network, {});
  CHECK(made == 2);
}

TEST_CASE("random patterns stay within their limit and are what the precision can hold") {
  const std::vector<float> pattern = random_pattern(1000, Precision::bf16, 0.25f, 1);
  REQUIRE(pattern.size() == 1000);
  CHECK(*std::max_element(pattern.begin(), pattern.end()) <= 0.25f);
  CHECK(*std::max_element(pattern.begin(), pattern.end()) > 0.2f);
  CHECK(*std::min_element(pattern.begin(), pattern.end()) >= -0.25f);
  CHECK(*std::min_element(pattern.begin(), pattern.end()) < -0.2f);
  CHECK(random_pattern(3 << 20, Precision::fp16, 1.0f, 1).size() < (2u << 20));
  CHECK(random_pattern(10, Precision::fp16, 1.0f, 1) != random_pattern(10, Precision::fp16, 1.0f, 2));
}

TEST_CASE("a library that is absent, or lacks a function, is told by name") {
  struct Library : SharedLibrary {
    double (*cos)(double) = nullptr;
    double (*not_there)(double) = nullptr;
    Library(const std::string& soname, bool wants_more) : SharedLibrary("ONCHIP_TEST_LIBRARY", soname) {
      load(cos, "cos");
      if (wants_more) {
        load(not_there, "onchip_not_there");
      }
    }
  };
  const Library math("libm.so.6", false);
  CHECK(refusal_of([&] { math.require(); }) == "no error");
  CHECK(math.cos(0) == 1);
  CHECK(refusal_of([] { Library("libm.so.6", true).require(); }) == "libm.so.6 has no function 'onchip_not_there'");
  CHECK(refusal_of([] { Library("libonchip_absent.so.1", false).require(); }) ==
        "libonchip_absent.so.1 is not installed where the dynamic linker looks; ONCHIP_TEST_LIBRARY can name it");
  setenv("ONCHIP_TEST_LIBRARY", "/nowhere/libm.so", 1);
  const std::string refusal = refusal_of([] { Library("libm.so.6", false).require(); });
  unsetenv("ONCHIP_TEST_LIBRARY");
  CHECK(refusal == "/nowhere/libm.so, named by ONCHIP_TEST_LIBRARY, not found");
}

TEST_CASE("without a GPU every baseline refuses with a reason") {
  if (!has_device()) {
    const Recurrent network = network_of(Cell::relu, Precision::fp16, 64, 1, 4);
    const SparseMatrix matrix = generate_mask(64, 64, 0.2, 1, Precision::fp16);
    for (const BaselineCandidate& candidate : baseline_candidates(network)) {
      CAPTURE(candidate.name);
      CHECK(refusal_of([&] { make_baseline(candidate, network, matrix); }).starts_with("no CUDA device: "));
    }
  }
}

// ---- on a GPU -------------------------------------------------------------------------------------------------------

TEST_CASE("libraries run padded networks", "[gpu]") {
  const Recurrent network = network_of(Cell::gru, Precision::bf16, 261, 3, 17);
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 1, network.precision);
  for (const BaselineCandidate& candidate : baseline_candidates(network)) {
    CAPTURE(candidate.name);
    const std::string refusal = refusal_of([&] { make_baseline(candidate, network, matrix); });
    const bool is_absent = says(refusal, "not installed") || refusal.starts_with("built without");
    CHECK_FALSE(refusal.starts_with("wrong"));
    CHECK(
        (is_absent || refusal == "no error" || candidate.name.starts_with("cudnn PERSIST") || says(refusal, "graph")));
  }
}

TEST_CASE("every library runs every cell in every precision, or says why not", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32);
  const int batch = GENERATE(1, 4);
  const Recurrent network = network_of(cell, precision, 256, batch, 17);
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 1, precision);
  CAPTURE(describe(network));
  const Stream stream;
  std::set<std::string> ran, absent;
  for (const BaselineCandidate& candidate : baseline_candidates(network)) {
    const std::string library = candidate.name.substr(0, candidate.name.find(' '));
    CAPTURE(candidate.name);
    std::string refusal;
    try {
      const auto baseline = make_baseline(candidate, network, matrix);
      CHECK_FALSE(baseline->settings().empty());
      baseline->poison_results();
      CHECK(EventTimer().milliseconds_of(stream.get(), [&] { baseline->enqueue(stream.get()); }) > 0);
      CHECK(refusal_of([&] { baseline->check_results(); }) == "no error");
      ran.insert(library);
    } catch (const BaselineRefusal& error) {
      refusal = error.what();
      // What a library does not offer is its answer; a wrong result, or a graph without its work, is our mistake.
      CHECK_FALSE(refusal.starts_with("wrong"));
      CHECK_FALSE(says(refusal, "not finite"));
    }
    if (says(refusal, "not installed") || refusal.starts_with("built without")) {
      absent.insert(library);
    }
  }
  for (const char* library : {"cudnn", "cublas", "cusparse"}) {
    CAPTURE(library);
    CHECK(ran.count(library) + absent.count(library) == 1);
  }
}

TEST_CASE("products run with awkward sizes: primes, empty rows, one step, fewer rows than are checked", "[gpu]") {
  const int hidden = GENERATE(1, 7, 211);
  const int steps = GENERATE(1, 2, 19);
  const Recurrent network = network_of(Cell::gru, Precision::fp32, hidden, 3, steps);
  SparseMatrix matrix;
  matrix.rows = network.rows();
  matrix.columns = hidden;
  matrix.row_begin.push_back(0);
  for (int row = 0; row < matrix.rows; ++row) {
    if (row % 3 != 1) {
      matrix.column.push_back(row * 5 % hidden);
      matrix.value.push_back(row % 2 == 0 ? 1.5f : -0.5f);
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  CAPTURE(hidden, steps);
  for (const BaselineCandidate& candidate : baseline_candidates(network)) {
    CAPTURE(candidate.name);
    const std::string refusal = refusal_of([&] { make_baseline(candidate, network, matrix); });
    CHECK_FALSE(refusal.starts_with("wrong"));
    CHECK_FALSE((says(refusal, "not finite") && !candidate.name.starts_with("cudnn")));
  }
}

// A product with the identity, which needs no library.
class Copy final : public Product {
 public:
  Copy(const ProductStates& states, std::size_t bytes) : states_(states), bytes_(bytes) {}
  void use(cudaStream_t stream) override { stream_ = stream; }
  void multiply(float scale, int from, int to) override {
    CHECK(scale == 1.0f);
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(states_.data(to), states_.data(from), bytes_, cudaMemcpyDeviceToDevice, stream_));
  }
  std::string settings() const override { return "copy"; }

 private:
  const ProductStates& states_;
  std::size_t bytes_;
  cudaStream_t stream_ = nullptr;
};

std::unique_ptr<Baseline> copying_baseline(MatrixOrder order, std::size_t bytes, float diagonal) {
  const Recurrent network = network_of(Cell::relu, Precision::fp32, 40, 2, 9);
  const auto make = [&](const ProductStates& states) { return std::make_unique<Copy>(states, bytes); };
  const auto row_of_weights = [&](int row) {
    std::vector<float> weights(40);
    weights[static_cast<std::size_t>(row)] = diagonal;
    return weights;
  };
  return make_product_baseline(network, order, make, row_of_weights);
}

TEST_CASE("a product is compared with the weights it should have, and every result must be written", "[gpu]") {
  constexpr std::size_t kWhole = 40 * 2 * sizeof(float);
  for (const MatrixOrder order : {MatrixOrder::column_major, MatrixOrder::row_major}) {
    CHECK(copying_baseline(order, kWhole, 1.0f)->settings() == std::string(kProductOnly) + ", copy");
    CHECK(refusal_of([&] { copying_baseline(order, kWhole, 1.01f); }).starts_with("wrong"));
    CHECK(says(refusal_of([&] { copying_baseline(order, kWhole - 4, 1.0f); }), "was not written"));
  }
}

TEST_CASE("a graph does what its baseline does, and a failed capture leaves nothing behind", "[gpu]") {
  class Setter final : public Baseline {
   public:
    Setter(int value, int fail_at) : value_(value), fail_at_(fail_at), bytes_(16) {}
    void enqueue(cudaStream_t stream) override {
      for (int i = 0; i < 16; ++i) {
        if (i == fail_at_) {
          throw BaselineRefusal("does not like it");
        }
        ONCHIP_CUDA_CHECK(cudaMemsetAsync(bytes_.data() + i, value_, 1, stream));
      }
    }
    int steps() const override { return 16; }
    std::string settings() const override { return "sets"; }
    void poison_results() override { poison(bytes_); }
    void check_results() const override {
      for (const std::byte byte : bytes_.download()) {
        if (static_cast<int>(byte) != value_) {
          throw BaselineRefusal("not set");
        }
      }
    }

   private:
    int value_, fail_at_;
    DeviceBuffer<std::byte> bytes_;
  };

  const auto graph = as_graph(std::make_unique<Setter>(3, -1));
  CHECK(graph->settings() == "sets, CUDA graph of 16 nodes");
  graph->poison_results();
  CHECK(refusal_of([&] { graph->check_results(); }) == "not set");
  const Stream stream;
  graph->enqueue(stream.get());
  stream.synchronize();
  CHECK(refusal_of([&] { graph->check_results(); }) == "no error");

  CHECK(refusal_of([] { as_graph(std::make_unique<Setter>(3, 5)); }) == "does not like it");
  CHECK(refusal_of([] { as_graph(std::make_unique<Setter>(3, 0)); }) == "does not like it");
  ONCHIP_CUDA_CHECK(cudaGetLastError());
  CHECK_FALSE(as_graph(std::make_unique<Setter>(4, -1)) == nullptr);
}

}  // namespace
}  // namespace onchip
