// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/fleet.hpp"

#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

namespace onchip {

namespace {

// Until the counter is another. To be woken takes as long as a small inference: it is looked at again and again first.
void await_change(const std::atomic<int>& counter, int old) {
  constexpr std::chrono::milliseconds kSpin{20};
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (counter.load() == old) {
    if (std::chrono::steady_clock::now() > until) {
      counter.wait(old);
      return;
    }
    std::this_thread::yield();
  }
}

}  // namespace

std::vector<std::vector<int>> shares(const Inputs& images, int gpus, Split split) {
  std::vector<std::vector<int>> shares(gpus);
  const int count = image_count(images);
  std::vector<int> in_order(count), ones(count), order(gpus);
  std::iota(in_order.begin(), in_order.end(), 0);
  if (split == Split::contiguous) {
    for (const int image : in_order) {
      shares[std::int64_t{image} * gpus / count].push_back(image);
    }
    return shares;
  }
  for (const int image : in_order) {
    for_each_feature(images, image, [&](int, float value) { ones[image] += value != 0; });
  }
  std::ranges::stable_sort(in_order, std::greater<>(), [&](int image) { return ones[image]; });
  std::mt19937 random;
  for (int first = 0; first < count; first += gpus) {
    std::iota(order.begin(), order.end(), 0);
    for (int i = gpus - 1; i > 0; --i) {  // std::shuffle may differ from library to library
      std::swap(order[i], order[random() % (i + 1)]);
    }
    for (int i = 0; i < std::min(gpus, count - first); ++i) {
      shares[order[i]].push_back(in_order[first + i]);
    }
  }
  for (std::vector<int>& of_gpu : shares) {
    std::ranges::sort(of_gpu);
  }
  return shares;
}

struct Fleet::State {
  std::vector<std::vector<int>> numbers;  // of each GPU's images
  std::vector<Inference> each;
  std::vector<std::exception_ptr> failures;
  std::atomic<int> started = 0, working;  // how often; GPUs that have not ended
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> threads;  // last: they end before the rest goes

  State(const Inputs& images, int gpus, Split split)
      : numbers(shares(images, gpus, split)), each(gpus), failures(gpus), working(gpus) {}

  void run(int gpu, const ProgramOfImages& program, const Inputs& images, const Load& load) {
    std::optional<InferenceExecutor> executor;
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
    for (int seen = 0;; ++seen) {
      if (--working == 0) {
        working.notify_all();
      }
      await_change(started, seen);
      if (is_over) {
        return;
      }
      guarded([&] { each[gpu] = executor->infer(); });
    }
  }

  void start() {
    working = static_cast<int>(numbers.size());
    ++started;
    started.notify_all();
  }
  void await_end() const {
    for (int left = working; left != 0; left = working) {
      await_change(working, left);
    }
  }
  void stop() {
    is_over = true;
    start();
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

Fleet::Fleet(const ProgramOfImages& program, int gpus, const Inputs& images, const Load& load, Split split)
    : state_(std::make_unique<State>(images, gpus, split)) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    state_->threads.emplace_back([&, gpu, state = state_.get()] { state->run(gpu, program, images, load); });
  }
  state_->await_end();  // what is captured by reference was used
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
  state_->start();
  state_->await_end();
  state_->rethrow();
  FleetInference result{{}, state_->each};
  for (std::size_t gpu = 0; gpu < result.each.size(); ++gpu) {
    add_part(result.all, result.each[gpu], [&](int image) { return state_->numbers[gpu][image]; });
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

InferenceExecutor load_on_gpu(int gpu, const InferenceProgram& program) {
  ONCHIP_CUDA_CHECK(cudaSetDevice(gpu));
  return inference_on<DeviceProgram>(program);
}

}  // namespace onchip
