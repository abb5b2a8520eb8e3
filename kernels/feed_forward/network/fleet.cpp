// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/fleet.hpp"

#include "kernels/feed_forward/inference.hpp"
#include "kernels/runtime/device.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <numeric>
#include <random>
#include <thread>

namespace onchip {

std::vector<std::vector<int>> shares(int images, int gpus) {
  std::vector<std::vector<int>> shares(gpus);
  std::vector<int> order(gpus);
  std::mt19937 random;
  for (int first = 0; first < images; first += gpus) {
    std::iota(order.begin(), order.end(), 0);
    for (int i = gpus - 1; i > 0; --i) {  // std::shuffle may differ from library to library
      std::swap(order[i], order[random() % (i + 1)]);
    }
    for (int i = 0; i < std::min(gpus, images - first); ++i) {
      shares[order[i]].push_back(first + i);
    }
  }
  return shares;
}

Bitmaps images_of(const Bitmaps& all, std::span<const int> numbers) {
  Bitmaps images{static_cast<int>(numbers.size()), all.neurons, {}};
  images.words.reserve(numbers.size() * all.words_per_image());
  for (const int number : numbers) {
    const auto words = all.of(number);
    images.words.insert(images.words.end(), words.begin(), words.end());
  }
  return images;
}

struct Fleet::State {
  std::vector<std::vector<int>> numbers;  // of each GPU's images
  std::vector<Inference> each;
  std::vector<std::exception_ptr> failures;
  std::barrier<> start, end;
  bool is_over = false;
  std::vector<std::jthread> threads;  // last: they end before the rest goes

  State(int images, int gpus)
      : numbers(shares(images, gpus)), each(gpus), failures(gpus), start(gpus + 1), end(gpus + 1) {}

  void run(int gpu, const ProgramOfImages& program, const Bitmaps& images, const Load& load) {
    std::unique_ptr<InferenceExecutor> executor;
    const auto guarded = [&](const auto& work) {
      try {
        work();
      } catch (...) {
        failures[gpu] = std::current_exception();
      }
    };
    guarded([&] {
      executor = load(gpu, program(std::max<int>(1, static_cast<int>(numbers[gpu].size()))));
      executor->upload(images_of(images, numbers[gpu]));
    });
    end.arrive_and_wait();
    for (start.arrive_and_wait(); !is_over; start.arrive_and_wait()) {
      guarded([&] { each[gpu] = executor->infer(); });
      end.arrive_and_wait();
    }
  }

  void stop() {
    is_over = true;
    start.arrive_and_wait();
    threads.clear();
  }

  void rethrow() const {
    for (const std::exception_ptr& failure : failures) {
      if (failure) {
        std::rethrow_exception(failure);
      }
    }
  }
};

Fleet::Fleet(const ProgramOfImages& program, int gpus, const Bitmaps& images, const Load& load)
    : state_(std::make_unique<State>(images.images, gpus)) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    state_->threads.emplace_back([&, gpu, state = state_.get()] { state->run(gpu, program, images, load); });
  }
  state_->end.arrive_and_wait();  // what is captured by reference was used
  try {
    state_->rethrow();
  } catch (...) {
    state_->stop();
    throw;
  }
}

Fleet::~Fleet() {
  if (!state_->threads.empty()) {
    state_->stop();
  }
}

FleetInference Fleet::infer() {
  const auto begin = std::chrono::steady_clock::now();
  state_->start.arrive_and_wait();
  state_->end.arrive_and_wait();
  state_->rethrow();
  FleetInference result{{}, state_->each};
  for (std::size_t gpu = 0; gpu < result.each.size(); ++gpu) {
    const Inference& one = result.each[gpu];
    for (const int image : one.categories) {
      result.all.categories.push_back(state_->numbers[gpu][image]);
    }
    result.all.entering.resize(std::max(result.all.entering.size(), one.entering.size()));
    for (std::size_t p = 0; p < one.entering.size(); ++p) {
      result.all.entering[p] += one.entering[p];
    }
    result.all.open_narrow += one.open_narrow;
    result.all.open_wide += one.open_wide;
  }
  std::ranges::sort(result.all.categories);
  result.all.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

int gpu_count() {
  int count = 0;
  ONCHIP_CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}

std::unique_ptr<InferenceExecutor> load_on_gpu(int gpu, const InferenceProgram& program) {
  ONCHIP_CUDA_CHECK(cudaSetDevice(gpu));
  return std::make_unique<DeviceInference>(program);
}

}  // namespace onchip
