// Messages that have arrived, and are not delivered yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace astra::flow {

// Messages that have arrived: `take` moves those of the first instant to `numbers`, in ascending order.
class Deliveries {
 public:
  bool empty() const { return waiting_.empty(); }
  std::int64_t next_time() const { return waiting_.front().first; }
  void add(std::int64_t time, std::uint64_t number) { waiting_.emplace_back(time, number); }

  void forget_taken() { numbers_.clear(); }
  void take() {
    time_ = next_time();
    for (; !waiting_.empty() && next_time() == time_; waiting_.pop_front()) numbers_.push_back(waiting_.front().second);
    if (!std::is_sorted(numbers_.begin(), numbers_.end())) std::sort(numbers_.begin(), numbers_.end());
  }

  std::int64_t time() const { return time_; }
  const std::vector<std::uint64_t>& numbers() const { return numbers_; }

 private:
  std::deque<std::pair<std::int64_t, std::uint64_t>> waiting_;
  std::int64_t time_ = 0;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace astra::flow
