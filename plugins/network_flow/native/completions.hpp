// When flows end, the next one first: a heap in which each flow has one place that can change.
//
// It is no `RadixQueue`, whose events never change: a flow that comes or goes gives others another rate, and so another end.
#pragma once

#include <algorithm>
#include <astra_sim/index.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace astra::flow {

class Completions {
 public:
  bool empty() const { return heap_.empty(); }
  std::int64_t time() const { return heap_.front().first; }
  int flow() const { return heap_.front().second; }

  // A flow ends at a time, which replaces the one it had.
  void set(int flow, std::int64_t time) {
    if (count_of(place_) <= flow) place_.resize(index(flow) + 1, kNowhere);
    int place = at(place_, flow);
    if (place == kNowhere) {
      place = count_of(heap_);
      heap_.emplace_back();
    }
    sift({time, flow}, place);
  }

  // The next flow leaves.
  void pop() {
    at(place_, flow()) = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift(last, 0);
  }

 private:
  using Entry = std::pair<std::int64_t, int>;

  static constexpr int kNowhere = -1;
  static constexpr int kChildren = 4;

  void sift(const Entry& entry, int place) {
    while (place > 0 && entry < at(heap_, (place - 1) / kChildren)) place = move((place - 1) / kChildren, place);
    for (;;) {
      const int first = place * kChildren + 1, end = std::min(first + kChildren, count_of(heap_));
      int next = place;
      for (int child = first; child < end; ++child) {
        if (at(heap_, child) < (next == place ? entry : at(heap_, next))) next = child;
      }
      if (next == place) break;
      place = move(next, place);
    }
    put(entry, place);
  }

  int move(int from, int to) {
    put(at(heap_, from), to);
    return from;
  }

  void put(const Entry& entry, int place) {
    at(heap_, place) = entry;
    at(place_, entry.second) = place;
  }

  std::vector<Entry> heap_;
  std::vector<int> place_;  // of each flow
};

}  // namespace astra::flow
