// The events of the bucket whose turn it is, in order. Those that come meanwhile and belong far in front wait in a heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "event.hpp"

namespace astra::roce {

class BucketTurn {
 public:
  BucketTurn() : events_(1) {}

  bool empty() const { return place_ == end_ && late_.empty(); }
  std::size_t count() const { return end_ - place_ + late_.size(); }

  // The next event in order; its key is the last of all where there is none.
  const BucketEvent& next() const { return events_[place_]; }
  bool has_next() const { return place_ < end_; }
  void take_next() { ++place_; }
  // The n-th event after the next, or null.
  const BucketEvent* ahead(std::size_t count) const { return place_ + count < end_ ? &events_[place_ + count] : nullptr; }

  // The first of those in the heap.
  bool has_late() const { return !late_.empty(); }
  const BucketEvent& late() const { return late_.front(); }
  void take_late() {
    std::pop_heap(late_.begin(), late_.end(), comes_after);
    late_.pop_back();
  }

  // An event comes. Returns whether it goes into the heap.
  bool put(BucketEvent event) {
    if (end_ - place_ > kFew && events_[end_ - kFew].key > event.key) {
      late_.push_back(event);
      std::push_heap(late_.begin(), late_.end(), comes_after);
      return true;
    }
    std::size_t place = end_++;
    for (; place > place_ && events_[place - 1].key > event.key; --place) events_[place] = events_[place - 1];
    events_[place] = event;
    if (events_.size() == end_) events_.resize(2 * end_);
    events_[end_] = BucketEvent{};
    return false;
  }

  // Another bucket has its turn: room for its events, to be put in order by `sort`.
  BucketEvent* open(std::size_t count) {
    place_ = 0;
    end_ = count;
    if (events_.size() <= end_) events_.resize(2 * end_);
    events_[end_] = BucketEvent{};
    return events_.data();
  }
  void sort() {
    std::size_t moves = kFew * end_;
    for (std::size_t next = 1; next < end_; ++next) {
      const BucketEvent event = events_[next];
      std::size_t place = next;
      for (; place > 0 && events_[place - 1].key > event.key; --place) events_[place] = events_[place - 1];
      events_[place] = event;
      moves -= next - place;
      if (moves > kFew * end_) {
        const auto first = events_.begin();
        return std::sort(first, first + static_cast<std::ptrdiff_t>(end_), comes_before);
      }
    }
  }

  // Calls visit(event) for all.
  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t place = place_; place < end_; ++place) visit(events_[place]);
    for (const BucketEvent& event : late_) visit(event);
  }
  void clear() {
    late_.clear();
    place_ = end_ = 0;
    events_[0] = BucketEvent{};
  }

 private:
  static constexpr std::size_t kFew = 16;  // moves of an event, while a bucket is put in order one by one

  static bool comes_before(const BucketEvent& one, const BucketEvent& other) { return one.key < other.key; }
  static bool comes_after(const BucketEvent& one, const BucketEvent& other) { return one.key > other.key; }

  std::vector<BucketEvent> events_;  // from `place_` up to `end_`, where a mark is
  std::size_t place_ = 0;
  std::size_t end_ = 0;
  std::vector<BucketEvent> late_;  // a heap
};

}  // namespace astra::roce
