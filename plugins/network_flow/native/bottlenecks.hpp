// Bottlenecks that wait for the level at which they come into force, the lowest first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace astra::flow {

// Most are known in advance and sorted once; those that come later than was thought are in a heap.
class Bottlenecks {
 public:
  // The level of a bottleneck: a link, or what its user counts below 0.
  using Full = std::pair<double, int>;

  bool empty() const { return next_ >= known_.size() && later_.empty(); }

  void clear() {
    known_.clear();
    next_ = 0;
  }

  // Before the first `take`: `sort` follows the last.
  void add(double level, int what) { known_.emplace_back(level, what); }
  void sort() {
    if (!std::is_sorted(known_.begin(), known_.end())) std::sort(known_.begin(), known_.end());
  }

  // One that has been taken comes later.
  void put_back(double level, int what) {
    later_.emplace_back(level, what);
    std::push_heap(later_.begin(), later_.end(), std::greater<>());
  }

  // The lowest, taken out; there is one.
  Full take() {
    if (later_.empty() || (next_ < known_.size() && known_[next_] < later_.front())) return known_[next_++];
    std::pop_heap(later_.begin(), later_.end(), std::greater<>());
    const Full lowest = later_.back();
    later_.pop_back();
    return lowest;
  }

 private:
  std::vector<Full> known_;
  std::size_t next_ = 0;
  std::vector<Full> later_;
};

}  // namespace astra::flow
