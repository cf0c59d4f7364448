// Messages that have arrived, and are not delivered yet.
#pragma once

#include <astra_sim/network.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace astra::flow {

// Messages that have arrived: `take` moves those of the first instant to `messages`, by number ascending.
class Deliveries {
 public:
  bool empty() const { return waiting_.empty(); }
  std::int64_t next_time() const { return waiting_.front().first; }
  void add(std::int64_t time, std::uint64_t number) { waiting_.emplace_back(time, number); }

  void forget_taken() { messages_.clear(); }
  void take() {
    const auto before = [](const astra_delivery& a, const astra_delivery& b) { return a.number < b.number; };
    time_ = next_time();
    for (; !waiting_.empty() && next_time() == time_; waiting_.pop_front())
      messages_.push_back({waiting_.front().second, ASTRA_ARRIVED, 0});
    if (!std::is_sorted(messages_.begin(), messages_.end(), before)) std::sort(messages_.begin(), messages_.end(), before);
  }

  std::int64_t time() const { return time_; }
  const std::vector<astra_delivery>& messages() const { return messages_; }

 private:
  std::deque<std::pair<std::int64_t, std::uint64_t>> waiting_;
  std::int64_t time_ = 0;
  std::vector<astra_delivery> messages_;
};

}  // namespace astra::flow
