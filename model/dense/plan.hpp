// SPDX-License-Identifier: Apache-2.0
// The plan of the dense persistent family: one block per SM, all warps of which multiply all rows of its units, each
// for its own share of the columns, by tiles of 16 rows x 16 units on the tensor cores (model/dense/fragments.hpp). A
// warp's tiles are in registers; shared_tiles of them in shared memory. The samples may be shared out to several *batch
// groups* of SMs, each with all weights and a state of its own. A batch group that is one cluster of the chip exchanges
// the state through distributed shared memory.
//
// Of a 2:4 matrix (model/workload/mask.hpp) the sparse tensor cores need only half of the weights: a tile of as many
// bytes then has 16 rows x 32 units. Of any sparse matrix the tiles in shared memory may be stored without the words
// that are zero (model/dense/bitmap.hpp).
#pragma once

#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/workload/recurrent.hpp"

#include <span>
#include <string_view>

namespace onchip {

inline constexpr int kSpanUnits = 32;      // units whose state a warp loads at once
inline constexpr int kSectorUnits = 16;    // whose state has 32 bytes
inline constexpr int kTileBytes = 512;     // 16 rows x 16 values, fp16 or bf16
inline constexpr int kTilesOfBitmap = 8;   // of a lane, whose words of a tile are 4, in 32 bits
inline constexpr int kBankRowBytes = 128;  // a word in each bank
inline constexpr int kMostDenseThreads = 1024;
inline constexpr int kMostOfCluster = 16;  // SMs
inline constexpr int kMostTiles = 1 << 20;
inline constexpr int kMostDenseLoads = 256;
inline constexpr int kMostPaddedUnits = 1 << 20;

struct DensePlan {
  using Workload = Recurrent;
  static constexpr std::string_view kName = "dense_persistent";
  static constexpr bool kIsOnChip = true;  // the weights stay on the chip

  Storage storage = Storage::dense;
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  int sms = 0;              // blocks, one per SM, of a batch group
  int threads = 0;          // per block, a multiple of 32
  int loads_in_flight = 2;  // 16-byte words of the state that a thread polls at once: a multiple of twice the sample
                            // tiles
  int line_words = kLineWords;  // 16-byte words of the state in each line of L2, a power of two
  int poll_delay = 0;           // cycles from publishing an SM's part of the state to the first poll for the next
  int shared_tiles = 0;         // of a warp's tiles, in shared memory
  int bank_words = 0;           // bitmap: room for words of these tiles in each bank of shared memory, of an SM
  int batch_groups = 1;         // that share the samples out, evenly
  int padded_samples = 0;       // that are computed, where more than the batch share out better; 0: the batch
  int padded_units = 0;         // likewise, of more than the hidden size; 0: the hidden size

  int block_threads() const { return threads; }
  int warps() const { return threads / 32; }
  Tier tier() const {
    return shared_tiles > 0 ? Tier::shared_memory : Tier::registers;
  }  // where its weights lie at most
  friend bool operator==(const DensePlan&, const DensePlan&) = default;
};

std::span<const Field<DensePlan>> fields(const DensePlan&);

}  // namespace onchip
