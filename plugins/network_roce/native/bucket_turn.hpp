// The events of the bucket whose turn it is, in order. Those that come meanwhile and belong far in front wait in a heap.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "event.hpp"

namespace astra::roce {

class BucketTurn {
 public:
  // `shift`: a bucket has two to the power of this ticks.
  explicit BucketTurn(unsigned shift) : shift_(shift), events_(kAhead + 1) {}

  static constexpr std::size_t kAhead = 16;  // events that `ahead` is asked for, at most

  bool empty() const { return place_ == end_ && late_.empty(); }
  std::size_t count() const { return end_ - place_ + late_.size(); }

  // The next event in order; its key is the last of all where there is none.
  const BucketEvent& next() const { return events_[place_]; }
  bool has_next() const { return place_ < end_; }
  void take_next() { ++place_; }
  // The n-th event after the next, or a mark.
  const BucketEvent& ahead(std::size_t count) const { return events_[place_ + count]; }

  // The first of those in the heap.
  bool has_late() const { return !late_.empty(); }
  const BucketEvent& late() const { return late_.front(); }
  void take_late() {
    std::pop_heap(late_.begin(), late_.end(), comes_after);
    late_.pop_back();
  }

  // An event comes. Returns whether it goes into the heap.
  bool put(BucketEvent event) {
    if (end_ - place_ > kMany && events_[end_ - kMany].key > event.key) {
      late_.push_back(event);
      std::push_heap(late_.begin(), late_.end(), comes_after);
      return true;
    }
    std::size_t place = end_++;
    for (; place > place_ && events_[place - 1].key > event.key; --place) events_[place] = events_[place - 1];
    events_[place] = event;
    if (events_.size() < end_ + kAhead) events_.resize(2 * (end_ + kAhead));
    events_[end_ + kAhead - 1] = BucketEvent{};
    return false;
  }

  // Another bucket has its turn: room for its events, to be put in order by `sort`.
  BucketEvent* open(std::size_t count) {
    place_ = 0;
    end_ = count;
    if (events_.size() < end_ + kAhead) events_.resize(2 * (end_ + kAhead));
    mark_end();
    return events_.data();
  }
  void sort() {
    if (shift_ > 0 && end_ > kSmall) end_ > kMiddle ? sort_parts<kFineBits>() : sort_parts<kCoarseBits>();
    std::size_t moves = kFew * end_;
    for (std::size_t next = 1; next < end_; ++next) {
      if (events_[next - 1].key <= events_[next].key) continue;
      const BucketEvent event = events_[next];
      std::size_t place = next;
      for (; place > 0 && events_[place - 1].key > event.key; --place) events_[place] = events_[place - 1];
      events_[place] = event;
      if (moves < next - place) {
        const auto first = events_.begin();
        return std::sort(first, first + static_cast<std::ptrdiff_t>(end_), comes_before);
      }
      moves -= next - place;
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
    mark_end();
  }

 private:
  static constexpr std::size_t kFew = 16;   // moves of an event, while a bucket is put in order one by one
  static constexpr std::size_t kMany = 64;  // moves of an event that comes meanwhile, at most
  // Up to `kSmall` events are put in order at once, more in parts of the bucket: two to the power of one of these.
  static constexpr std::size_t kSmall = 4;
  static constexpr std::size_t kMiddle = 32;
  static constexpr unsigned kCoarseBits = 4;
  static constexpr unsigned kFineBits = 6;

  static constexpr auto comes_before = [](const BucketEvent& one, const BucketEvent& other) { return one.key < other.key; };
  static constexpr auto comes_after = [](const BucketEvent& one, const BucketEvent& other) { return one.key > other.key; };

  void mark_end() { std::fill_n(events_.begin() + static_cast<std::ptrdiff_t>(end_), kAhead, BucketEvent{}); }

  // Put the events in the order of the parts of the bucket, each a short span of time, and within a part as they came.
  template <unsigned kBits>
  void sort_parts() {
    const unsigned shift = BucketEvent::kOrderBits + (shift_ > kBits ? shift_ - kBits : 0);
    std::array<std::uint32_t, (std::size_t{1} << kBits) + 1> ends{};
    for (std::size_t place = 0; place < end_; ++place) ++ends[(events_[place].key >> shift) + 1];
    for (std::size_t part = 1; part < ends.size(); ++part) ends[part] += ends[part - 1];
    if (sorted_.size() < events_.size()) sorted_.resize(events_.size());
    for (std::size_t place = 0; place < end_; ++place) sorted_[ends[events_[place].key >> shift]++] = events_[place];
    events_.swap(sorted_);
    mark_end();
  }

  unsigned shift_;
  std::vector<BucketEvent> events_;  // from `place_` up to `end_`, where `kAhead` marks are
  std::vector<BucketEvent> sorted_;  // room for them in another order
  std::size_t place_ = 0;
  std::size_t end_ = 0;
  std::vector<BucketEvent> late_;  // a heap
};

}  // namespace astra::roce
