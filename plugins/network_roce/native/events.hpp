// The clock, and what is to happen: a heap ordered by time, and within an instant by when it was scheduled.
//
// An order number may be taken before it is known whether an event is needed: a port is free at a moment that has its place in the order
// even if nobody waits for it. Behind the last event of the heap there are always some that never come, so that each has four children.
#pragma once

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
};

class Events {
 public:
  Events() : heap_(kChildren + 1, kEnd) {}

  Tick now() const { return now_; }
  // The place of what happens now among all of this instant.
  std::uint64_t current() const { return current_; }
  std::uint64_t next_order() { return ++orders_; }
  std::uint64_t last_order() const { return orders_; }
  std::uint64_t count() const { return count_; }

  // Whether there is nothing more to happen; else `first` is next. The place of the event that happened last is filled before.
  bool empty() {
    if (open_) close();
    return size_ == 0;
  }
  const Event& first() const { return heap_[0]; }

  // The first event happens: it leaves the heap. What is scheduled next takes its place, so that the heap is put in order once for both.
  Event begin() {
    const Event event = heap_[0];
    now_ = event.time;
    current_ = event.order;
    ++count_;
    open_ = true;
    return event;
  }

  void at(Tick time, std::uint64_t order, What what, std::uint32_t subject) {
    const Event event{time, order, subject, what};
    if (open_) {
      open_ = false;
      return sink(event);
    }
    if (heap_.size() < size_ + kChildren + 2) heap_.resize(2 * heap_.size() + kChildren, kEnd);
    rise(event, size_++);
  }
  void at(Tick time, What what, std::uint32_t subject) { at(time, next_order(), what, subject); }

 private:
  using Key = unsigned __int128;
  static constexpr std::size_t kChildren = 4;
  static constexpr Event kEnd{kNever, ~std::uint64_t{0}, kNone, What::failure};  // behind the last: later than anything

  static Key key(const Event& event) { return static_cast<Key>(static_cast<std::uint64_t>(event.time)) << 64 | event.order; }

  void rise(const Event& event, std::size_t place) {
    const Key own = key(event);
    while (place > 0) {
      const std::size_t parent = (place - 1) / kChildren;
      if (own >= key(heap_[parent])) break;
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = event;
  }

  // An event takes the place at the top. The earliest of four children is found without branches, which would be guessed wrongly.
  void sink(const Event& event) {
    const Key own = key(event);
    std::size_t place = 0;
    for (;;) {
      const std::size_t first = place * kChildren + 1;
      if (first >= size_) break;
      std::size_t best = first;
      Key least = key(heap_[first]);
      for (std::size_t child = first + 1; child < first + kChildren; ++child) {
        const Key other = key(heap_[child]);
        best = other < least ? child : best;
        least = other < least ? other : least;
      }
      if (own <= least) break;
      heap_[place] = heap_[best];
      place = best;
    }
    heap_[place] = event;
  }

  // Nothing has taken the place of the event that happened last: the last of the heap does.
  void close() {
    open_ = false;
    const Event last = heap_[--size_];
    heap_[size_] = kEnd;
    if (size_ > 0) sink(last);
  }

  std::vector<Event> heap_;  // and places that are free
  std::size_t size_ = 0;
  bool open_ = false;  // the place at the top is free
  Tick now_ = 0;
  std::uint64_t current_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace astra::roce
