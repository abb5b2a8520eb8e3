// SPDX-License-Identifier: Apache-2.0
// What takes long to find, found once for each key, whichever thread asks first; the others wait.
#pragma once

#include <map>
#include <mutex>

namespace onchip {

template <typename Key, typename Value>
class Kept {
 public:
  // What `find` throws is thrown, and nothing is kept. The value stays where it is.
  template <typename Find>
  const Value& of(const Key& key, const Find& find) {
    const std::scoped_lock lock(mutex_);
    const auto known = values_.find(key);
    return known != values_.end() ? known->second : values_.emplace(key, find()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace onchip
