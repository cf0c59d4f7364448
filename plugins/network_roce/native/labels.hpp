// Numbers for links and nodes in the order in which they are first met.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "types.hpp"

namespace astra::roce {

class Labels {
 public:
  void clear() {
    labels_.clear();
    events_.clear();
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(events_.size()); }
  // The thing of a label.
  std::uint32_t thing(std::uint32_t label) const { return events_[label]; }
  // The label of an object; kNone if it was not met.
  std::uint32_t known(std::uint32_t thing) const {
    const auto entry = labels_.find(thing);
    return entry == labels_.end() ? kNone : entry->second;
  }
  // The label of a thing that is met now; it is `count` from before where that is the first time.
  std::uint32_t meet(std::uint32_t thing) {
    const auto [entry, is_first] = labels_.try_emplace(thing, count());
    if (is_first) events_.push_back(thing);
    return entry->second;
  }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> labels_;
  std::vector<std::uint32_t> events_;
};

}  // namespace astra::roce
