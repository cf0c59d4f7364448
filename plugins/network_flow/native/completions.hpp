// When flows end, the next one first.
//
// Rates change often, and with them the ends of many flows that are far off. So flows whose end is beyond a horizon are in a list without
// order. The next of them are sorted when there are none before the horizon, which moves on; an end that changes to a time before it goes
// into a heap, in which it can change again.
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
  bool empty() const { return count_ == 0; }

  // When the next flow ends; there is one.
  std::int64_t time() { return next().first; }
  // That flow; of those of the same time the one of the lowest number.
  int flow() { return next().second; }

  // A flow ends at a time, which replaces the one it had.
  void set(int flow, std::int64_t time) {
    if (count_of(ends_) <= flow) ends_.resize(index(flow) + 1);
    End& end = at(ends_, flow);
    end.time = time;
    if (end.place == kNowhere) ++count_;
    const bool is_far = end.place < kSorted;
    if (time > horizon_) {
      if (is_far && end.place != kNowhere) return;
      if (end.place >= 0) leave_heap(end.place);
      end.place = kFirstFar - count_of(far_);
      far_.push_back(flow);
      return;
    }
    if (is_far && end.place != kNowhere) leave_far(end.place);
    if (end.place < 0) {
      end.place = count_of(heap_);
      heap_.emplace_back();
    }
    sift({time, flow}, end.place);
  }

  // The next flow leaves.
  void pop() {
    End& end = at(ends_, flow());
    --count_;
    if (end.place == kSorted) {
      ++next_;
    } else {
      leave_heap(0);
    }
    end.place = kNowhere;
  }

  // The end of a flow is about to be set.
  void prefetch(int flow) const {
    if (flow < count_of(ends_)) __builtin_prefetch(&at(ends_, flow));
  }

 private:
  using Entry = std::pair<std::int64_t, int>;

  static constexpr int kNowhere = INT32_MIN;
  static constexpr int kSorted = -1;
  static constexpr int kFirstFar = -2;
  static constexpr int kChildren = 4;
  static constexpr int kPart = 16;   // the part of them that is sorted at a time, as its divisor,
  static constexpr int kLeast = 64;  // but no fewer than these

  // When a flow ends. Its place: in the heap; kSorted; or kFirstFar - place in the list of those that are far off.
  struct End {
    std::int64_t time = 0;
    int place = kNowhere;
  };

  const Entry& next() {
    // Those that have left the sorted ones are still there.
    while (next_ < count_of(sorted_) && at(ends_, at(sorted_, next_).second).place != kSorted) ++next_;
    if (next_ == count_of(sorted_) && heap_.empty()) refill();
    if (next_ == count_of(sorted_)) return heap_.front();
    return heap_.empty() || at(sorted_, next_) < heap_.front() ? at(sorted_, next_) : heap_.front();
  }

  void leave_far(int place) {
    at(far_, kFirstFar - place) = far_.back();
    at(ends_, far_.back()).place = place;
    far_.pop_back();
  }

  void leave_heap(int place) {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place < count_of(heap_)) sift(last, place);
  }

  // The horizon moves to the end of one of the next flows that are far off.
  void refill() {
    times_.clear();
    for (int flow : far_) times_.push_back(at(ends_, flow).time);
    const auto part = times_.begin() + std::min(count_of(times_) - 1, std::max(kLeast, count_of(times_) / kPart));
    std::nth_element(times_.begin(), part, times_.end());
    horizon_ = *part;
    sorted_.clear();
    next_ = 0;
    int place = 0;
    for (int flow : far_) {
      End& end = at(ends_, flow);
      if (end.time > horizon_) {
        end.place = kFirstFar - place;
        at(far_, place++) = flow;
      } else {
        end.place = kSorted;
        sorted_.emplace_back(end.time, flow);
      }
    }
    far_.resize(index(place));
    std::sort(sorted_.begin(), sorted_.end());
  }

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
    at(ends_, entry.second).place = place;
  }

  int count_ = 0;  // of flows
  std::int64_t horizon_ = -1;
  std::vector<Entry> sorted_;  // flows that end up to the horizon,
  int next_ = 0;               // from this one on,
  std::vector<Entry> heap_;    // and others
  std::vector<int> far_;
  std::vector<End> ends_;            // of each flow
  std::vector<std::int64_t> times_;  // of those that are far off
};

}  // namespace astra::flow
