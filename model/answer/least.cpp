// SPDX-License-Identifier: Apache-2.0
#include "model/answer/least.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>

namespace onchip {
namespace {

bool less_is_better(const ChipKey& key) {
  return key.dimension == Dimension::cycles || key.dimension == Dimension::seconds ||
         key.member == &Chip::smem_reserved_bytes_per_block;
}

}  // namespace

bool is_structural(std::string_view key) {
  constexpr std::array<std::string_view, 10> kStructural{"compute_capability.major",  "compute_capability.minor",
                                                         "registers.allocation_unit", "shared_memory.allocation_unit",
                                                         "registers.per_block",       "shared_memory.per_block",
                                                         "exchange.scatter",          "timing.gather_scatter",
                                                         "library.scatter",           "cluster.sms"};
  return std::ranges::find(kStructural, key) != kStructural.end();
}

double Choices::value(int choice) const {
  return rounded(std::abs(choice) * step, 12);
}

std::string Choices::assignment(int choice) const {
  return std::string(key->key) + "=" + format_quantity(value(choice), key->dimension);
}

Choices choices(const Chip& chip, std::string_view name) {
  const ChipKey* key = find_key(name);
  if (key == nullptr) {
    throw InputError("unknown key " + in_quotes(name) + did_you_mean(name, key_names()));
  }
  const double now = chip.*key->member;
  if (is_structural(name) || now <= 0) {
    throw InputError("cannot vary " + in_quotes(name) +
                     (name.ends_with("per_block") ? ": it follows what the SM has"
                      : now <= 0                  ? ": the chip has none"
                                                  : ": more of it is neither better nor worse"));
  }
  const double finest = key->dimension == Dimension::bytes ? std::exp2(std::floor(std::log2(now)) - 7)
                                                           : std::pow(10.0, std::floor(std::log10(now)) - 2);
  const double unit = hardware_step(chip, *key);
  const double step = unit > 0 ? std::ceil(finest / unit) * unit : finest;
  constexpr double kTimes = 8, kRounding = 1e-9;
  const double steps = now / step;
  const int least = std::max(1, static_cast<int>(std::ceil(key->minimum / step - kRounding)));
  const int most = static_cast<int>(std::min(kTimes * steps, key->maximum / step) + kRounding);
  return less_is_better(*key) ? Choices{key, step, -most, -static_cast<int>(std::ceil(steps - kRounding)), -least}
                              : Choices{key, step, least, static_cast<int>(steps + kRounding), most};
}

Reach find_reach(int worst, int best, const Misses& misses, int samples, int ripple) {
  std::map<int, double> asked;
  for (int i = 0; i < samples; ++i) {
    const double part = static_cast<double>(i) / (samples - 1);
    asked[static_cast<int>(std::lround(worst * std::pow(static_cast<double>(best) / worst, part)))];
  }
  std::vector<std::map<int, double>::iterator> first;
  for (auto at = asked.begin(); at != asked.end(); ++at) {
    first.push_back(at);
  }
  parallel_for(static_cast<int>(first.size()), samples > 2 ? all_cores() : 1, [&](int i) {
    auto& [choice, miss] = *first[static_cast<std::size_t>(i)];
    miss = misses(choice);
  });
  const auto reaches = [](const auto& one) { return one.second <= 0; };
  for (bool is_new = true; is_new;) {
    is_new = false;
    const auto ask = [&](int choice) {
      if (choice >= worst && choice <= best && !asked.contains(choice)) {
        asked[choice] = misses(choice);
        is_new = true;
      }
    };
    for (auto a = asked.begin(), b = std::next(a); b != asked.end(); a = b, ++b) {
      if (reaches(*a) == reaches(*b)) {
        continue;
      }
      if (b->first - a->first > 1) {
        ask(a->first + (b->first - a->first) / 2);
      } else {
        for (int choice = a->first - ripple; choice <= b->first + ripple; ++choice) {
          ask(choice);
        }
      }
    }
  }
  Reach reach;
  double nearest = asked.begin()->second;
  for (const auto& [choice, miss] : asked) {
    nearest = std::min(nearest, miss);
  }
  constexpr double kAsNear = 1e-3;
  reach.nearest = std::ranges::find_if(asked, [&](const auto& one) {
                    return one.second <= nearest + kAsNear * std::abs(nearest);
                  })->first;
  bool failed = false;
  for (const auto& one : asked) {
    if (!reach.least && reaches(one)) {
      reach.least = one.first;
    } else if (reach.least && !reaches(one)) {
      if (!failed) {
        reach.fails_again.emplace_back(one.first, one.first);
      }
      reach.fails_again.back().second = one.first;
    }
    failed = !reaches(one);
  }
  return reach;
}

}  // namespace onchip
