// The clock, and what is to happen: a heap ordered by time, and within an instant by when it was scheduled.
//
// An order number may be taken before it is known whether an event is needed: a port is free at a moment that has its place in the order
// even if nobody waits for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace astra::roce {

enum class What : std::uint8_t { arrival, port_free, wake, start, alpha, decrease, increase, timeout, failure };

struct Event {
  Tick time;
  std::uint64_t order;
  std::uint32_t subject;  // a link, a flow, a start or a failure
  What what;

  bool before(const Event& other) const { return time < other.time || (time == other.time && order < other.order); }
};

class Events {
 public:
  Tick now() const { return now_; }
  // The place of what happens now among all of this instant.
  std::uint64_t current() const { return current_; }
  std::uint64_t next_order() { return ++orders_; }
  std::uint64_t last_order() const { return orders_; }

  bool empty() const { return heap_.empty(); }
  const Event& first() const { return heap_.front(); }
  std::uint64_t count() const { return count_; }

  void at(Tick time, std::uint64_t order, What what, std::uint32_t subject) {
    heap_.push_back({time, order, subject, what});
    rise(heap_.size() - 1);
  }
  void at(Tick time, What what, std::uint32_t subject) { at(time, next_order(), what, subject); }

  // Begin the first event: it is what happens now. It stays in the heap until `done` or `again`.
  Event begin() {
    const Event event = heap_.front();
    now_ = event.time;
    current_ = event.order;
    ++count_;
    return event;
  }
  void done() {
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink();
  }
  // Another event of the same subject takes the place of the first.
  void again(Tick time, std::uint64_t order) {
    heap_.front().time = time;
    heap_.front().order = order;
    sink();
  }

 private:
  static constexpr std::size_t kChildren = 4;

  void rise(std::size_t place) {
    const Event event = heap_[place];
    while (place > 0) {
      const std::size_t parent = (place - 1) / kChildren;
      if (!event.before(heap_[parent])) break;
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = event;
  }
  void sink() {
    const Event event = heap_.front();
    const std::size_t size = heap_.size();
    std::size_t place = 0;
    for (;;) {
      const std::size_t first = place * kChildren + 1;
      if (first >= size) break;
      std::size_t best = first;
      for (std::size_t child = first + 1; child < std::min(first + kChildren, size); ++child) {
        if (heap_[child].before(heap_[best])) best = child;
      }
      if (!heap_[best].before(event)) break;
      heap_[place] = heap_[best];
      place = best;
    }
    heap_[place] = event;
  }

  std::vector<Event> heap_;
  Tick now_ = 0;
  std::uint64_t current_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace astra::roce
