// The two ends of a message's life: sent and waiting for the latency of its route to be over, and arrived and not told yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace astra::flow {

// A message until its latency is over.
struct Sent {
  std::int64_t time = 0;   // when the latency is over
  std::int64_t order = 0;  // of being sent
  std::uint64_t number = 0;
  std::int64_t bytes = 0;
  int source = 0, destination = 0;
  bool around = false;  // not on a shortest way

  bool operator>(const Sent& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
};

// Messages whose latency is not over, the next one first. Where routes have the same latency it is over in the order in which messages were
// sent, so a queue holds these; only the others go through a heap.
class SentMessages {
 public:
  bool empty() const { return in_order_.empty() && others_.empty(); }
  // The message whose latency is over next; there is one.
  const Sent& next() const { return next_is_in_order() ? in_order_.front() : others_.top(); }
  void pop() { next_is_in_order() ? in_order_.pop_front() : others_.pop(); }

  void push(Sent sent) {
    sent.order = order_++;
    if (in_order_.empty() || sent.time >= in_order_.back().time) {
      in_order_.push_back(sent);
    } else {
      others_.push(sent);
    }
  }

 private:
  bool next_is_in_order() const { return others_.empty() || (!in_order_.empty() && others_.top() > in_order_.front()); }

  std::deque<Sent> in_order_;
  std::priority_queue<Sent, std::vector<Sent>, std::greater<>> others_;
  std::int64_t order_ = 0;
};

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
