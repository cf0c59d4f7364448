// What threads put on channels to others: it is on its way from the end of the window on (see thread_team.hpp).
#pragma once

#include <utility>
#include <vector>

#include "base/index.hpp"

namespace astra::packet {

template <class Item>
class Handed {
 public:
  void employ(int threads) { of_thread_.resize(index(threads)); }
  void add(int thread, int c, const Item& item) { at(of_thread_, thread).items.push_back({c, item}); }
  // Calls put(channel, item) for all.
  template <class Put>
  void settle(Put put) {
    for (Items& thread : of_thread_) {
      for (const auto& [c, item] : thread.items) put(c, item);
      thread.items.clear();
    }
  }

 private:
  struct alignas(64) Items {  // of a thread, in cache lines of its own
    std::vector<std::pair<int, Item>> items;
  };

  std::vector<Items> of_thread_;
};

}  // namespace astra::packet
