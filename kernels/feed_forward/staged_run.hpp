// SPDX-License-Identifier: Apache-2.0
// The launches of an inference by a staged plan, for any device: a GPU's stream, or the interpreter
// (tests/kernels/feed_forward_staged_test.cpp). A device has
//   allocate(bytes)                       memory that stays as long as it does
//   fill, upload, download                of device memory; download waits for what came before
//   launch(kernel, blocks, threads, shared_bytes, arguments)
//   most_blocks(kernel)                   that run at once
//   copy_layer(slot, to, from, bytes, ahead), await_layer(slot), release_layer(slot)
//                                         weights of a layer from the host to one of two slots; `ahead`: beside what
//                                         runs
#pragma once

#include "kernels/feed_forward/staged_program.hpp"
#include "model/feed_forward/inputs.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace onchip {

template <typename Device>
class StagedRun {
 public:
  StagedRun(Device& device, const StagedLayout& layout, const Bitmaps& images)
      : device_(device), layout_(layout), images_(static_cast<std::uint32_t>(images.images)) {
    std::size_t largest = 0, end = 0;
    for (const StagedLayer& layer : layout.layers) {
      StagedRecord record = pack(layer, layout.plan);
      places_.push_back(record.places);
      record_at_.push_back(end);
      end += record.bytes.size();
      largest = std::max(largest, record.bytes.size());
      host_records_.push_back(std::move(record.bytes));
      widest_ = std::max<std::size_t>(widest_, layer.outputs);
    }
    record_at_.push_back(end);
    records_ = allocate<std::byte>(is_resident() ? end : 2 * largest);
    slot_bytes_ = largest;
    for (std::size_t l = 0; is_resident() && l < host_records_.size(); ++l) {
      device.upload(records_ + record_at_[l], host_records_[l].data(), host_records_[l].size());
    }
    if (is_resident()) {
      host_records_.clear();
    } else {
      for (std::vector<std::byte>& record : host_records_) {
        device.pin(record);
      }
    }
    bitmaps_ = allocate<std::uint32_t>(images.words.size());
    device.upload(bitmaps_, images.words.data(), 4 * images.words.size());
    for (int i = 0; i < 2; ++i) {
      features_[i] = allocate<float>(widest_ * images_);
      ids_[i] = allocate<std::uint32_t>(images_);
    }
    alive_ = allocate<std::uint32_t>(images_);
    rows_ = allocate<std::uint32_t>(images_);
    counts_ = allocate<std::uint32_t>(layout.layers.size());
    categories_ = allocate<std::uint32_t>(category_words());
    device.upload(counts_, &images_, 4);
    device.fill(alive_, 0, 4 * std::size_t{images_});
  }

  // Everything between the bitmaps and the categories, of which the host has the bits afterwards; with a compaction on
  // the host it waits for the device after each layer.
  void enqueue() {
    const std::size_t layers = layout_.layers.size();
    device_.fill(counts_ + 1, 0, 4 * (layers - 1));
    device_.fill(categories_, 0, 4 * category_words());
    entering_.assign(layers, images_);
    host_ids_.clear();
    const std::uint32_t *count = counts_, *rows = nullptr, *ids = nullptr;
    if (!is_resident()) {
      copy(0);
    }
    for (std::size_t l = 0; l < layers; ++l) {
      const StagedLayer& layer = layout_.layers[l];
      const bool is_last = l + 1 == layers, on_host = layout_.plan.compaction == Compaction::host;
      const bool drops = layout_.plan.compaction != Compaction::none && static_cast<int>(l) >= layout_.first_drop;
      StagedArguments arguments = arguments_of(layer, places_[l], record(l), layout_.clip);
      arguments.count = count;
      arguments.rows = rows;
      arguments.features = features_[l % 2];
      arguments.bitmaps = bitmaps_;
      arguments.out = features_[(l + 1) % 2];
      arguments.alive = is_last || drops ? alive_ : nullptr;
      rows = nullptr;
      const char* const kernel = l == 0 ? kStagedFirstKernel : kStagedLayerKernel;
      const std::int64_t items =
          (std::int64_t{entering_[l]} + layout_.plan.images - 1) / layout_.plan.images * layer.blocks();
      if (items > 0) {
        device_.launch(kernel, static_cast<int>(std::min<std::int64_t>(items, device_.most_blocks(kernel))),
                       layout_.plan.block_outputs, static_cast<std::size_t>(layout_.plan.shared_bytes()), arguments);
      }
      if (!is_resident()) {
        device_.release_layer(l % 2);
      }
      if (drops && on_host) {
        compact_on_host(l, is_last);
        count = counts_ + l + 1;
        rows = rows_;
      } else if (is_last || drops) {
        std::uint32_t* const next_ids = ids_[l % 2];
        const StagedCompactArguments compact{.count = count,
                                             .ids = ids,
                                             .alive = alive_,
                                             .next_count = counts_ + l + 1,
                                             .next_rows = rows_,
                                             .next_ids = next_ids,
                                             .categories = is_last ? categories_ : nullptr};
        const auto blocks = static_cast<int>((images_ + kCompactThreads - 1) / kCompactThreads);
        if (blocks > 0) {
          device_.launch(kStagedCompactKernel, std::min(blocks, device_.most_blocks(kStagedCompactKernel)),
                         kCompactThreads, 0, compact);
        }
        count = counts_ + l + 1;
        rows = rows_;
        ids = next_ids;
      }
    }
  }

  // After enqueue() and whatever waits for it.
  std::vector<int> categories() {
    std::vector<std::uint32_t> bits(category_words());
    device_.download(bits.data(), categories_, 4 * bits.size());
    std::vector<int> alive = std::exchange(host_ids_, {});
    for (std::size_t word = 0; word < bits.size(); ++word) {
      for (std::uint32_t left = bits[word]; left != 0; left &= left - 1) {
        alive.push_back(static_cast<int>(32 * word) + std::countr_zero(left));
      }
    }
    return alive;
  }

  // Images that entered each layer.
  std::vector<std::uint32_t> entering() {
    if (layout_.plan.compaction == Compaction::device) {
      device_.download(entering_.data(), counts_, 4 * entering_.size());
      for (int l = 0; l <= layout_.first_drop; ++l) {
        entering_[l] = images_;
      }
    }
    return entering_;
  }

 private:
  template <typename T>
  T* allocate(std::size_t count) {
    return static_cast<T*>(device_.allocate(count * sizeof(T)));
  }
  bool is_resident() const { return layout_.plan.residency == Residency::resident; }
  std::size_t category_words() const { return (std::size_t{images_} + 31) / 32; }

  void copy(std::size_t l) {
    device_.copy_layer(l % 2, records_ + l % 2 * slot_bytes_, host_records_[l].data(), host_records_[l].size(),
                       layout_.plan.residency == Residency::overlapped);
  }

  const std::byte* record(std::size_t l) {
    if (is_resident()) {
      return records_ + record_at_[l];
    }
    if (layout_.plan.residency == Residency::copied) {
      if (l > 0) {
        copy(l);
      }
    } else if (l + 1 < layout_.layers.size()) {
      copy(l + 1);
    }
    device_.await_layer(l % 2);
    return records_ + l % 2 * slot_bytes_;
  }

  void compact_on_host(std::size_t l, bool is_last) {
    std::vector<std::uint32_t> alive(entering_[l]), rows;
    device_.download(alive.data(), alive_, 4 * alive.size());
    std::vector<int> ids;
    for (std::uint32_t position = 0; position < alive.size(); ++position) {
      if (alive[position] != 0) {
        rows.push_back(position);
        ids.push_back(host_ids_.empty() ? static_cast<int>(position) : host_ids_[position]);
      }
    }
    host_ids_ = std::move(ids);
    device_.fill(alive_, 0, 4 * alive.size());
    if (!is_last) {
      entering_[l + 1] = static_cast<std::uint32_t>(rows.size());
      device_.upload(counts_ + l + 1, &entering_[l + 1], 4);
      device_.upload(rows_, rows.data(), 4 * rows.size());
      std::fill(entering_.begin() + static_cast<std::ptrdiff_t>(l) + 1, entering_.end(), entering_[l + 1]);
    }
  }

  Device& device_;
  const StagedLayout& layout_;
  std::uint32_t images_;
  std::vector<std::array<std::size_t, 8>> places_;
  std::vector<std::size_t> record_at_;
  std::vector<std::vector<std::byte>> host_records_;  // where they are not resident
  std::size_t slot_bytes_ = 0, widest_ = 0;
  std::byte* records_ = nullptr;
  std::uint32_t *bitmaps_ = nullptr, *alive_ = nullptr, *rows_ = nullptr, *counts_ = nullptr, *categories_ = nullptr;
  float* features_[2] = {};
  std::uint32_t* ids_[2] = {};
  std::vector<std::uint32_t> entering_;
  std::vector<int> host_ids_;
};

}  // namespace onchip
