// The event queue: buckets of events that happen at the same time and stage.
//
// Most events share their time with many others, and are added nearly in the order in which they happen. So a bucket is a list
// that notes where its order breaks, and is merged from its ordered runs when its turn comes. Only buckets are in a heap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "trails.hpp"

namespace astra {

// What happens: of some kind, to a slot of a part of a phase (or to a task), scheduled by an NPU as its `order`-th.
struct Event {
  std::uint32_t key;    // trail by which it is put in order
  std::uint32_t kind;
  std::uint32_t order;
  std::uint32_t npu;
  std::uint32_t phase;
  std::uint32_t part;
  std::uint32_t slot;
  std::uint32_t trail;  // trail of what it brings about
};

class EventQueue {
 public:
  explicit EventQueue(const Trails& trails) : trails_(trails) { recent_.fill(kNone); }

  bool empty() const { return heap_.empty(); }
  Time time() const { return heap_.front().time; }

  void push(Time time, std::int64_t stage, const Event& event) {
    std::uint32_t& recent = recent_[hash(time, stage)];
    if (recent == kNone || buckets_[recent].time != time || buckets_[recent].stage != stage) recent = open(time, stage);
    Bucket& bucket = buckets_[recent];
    if (!bucket.events.empty() && before(event, bucket.events.back())) {
      bucket.breaks.push_back(static_cast<std::uint32_t>(bucket.events.size()));
    }
    bucket.events.push_back(event);
  }

  // Take all events of the next time and stage, in order, into `events`.
  void pop(Time& time, std::int64_t& stage, std::vector<Event>& events) {
    time = heap_.front().time;
    stage = heap_.front().stage;
    events.clear();
    breaks_.clear();
    do {
      std::pop_heap(heap_.begin(), heap_.end());
      const std::uint32_t number = heap_.back().bucket;
      heap_.pop_back();
      take(buckets_[number], events);
      close(number);
    } while (!heap_.empty() && heap_.front().time == time && heap_.front().stage == stage);
    if (!breaks_.empty()) merge(events);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kRecent = 256;
  static constexpr std::size_t kKeptCapacity = 64;  // larger buckets are given back where there are many

  struct Bucket {
    Time time = -1;
    std::int64_t stage = -1;
    std::vector<Event> events;
    std::vector<std::uint32_t> breaks;  // where an event is before the one in front of it
  };

  struct Entry {
    Time time;
    std::int64_t stage;
    std::uint32_t bucket;
    bool operator<(const Entry& other) const {  // for a heap whose front is the earliest
      return time != other.time ? time > other.time : stage > other.stage;
    }
  };

  static std::size_t hash(Time time, std::int64_t stage) {
    const auto mixed = (static_cast<std::uint64_t>(time) ^ static_cast<std::uint64_t>(stage) << 17) * 0x9e3779b97f4a7c15u;
    return mixed >> 56;
  }

  bool before(const Event& a, const Event& b) const {
    if (a.key != b.key && !trails_.equal(a.key, b.key)) return trails_.less(a.key, b.key);
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.order != b.order) return a.order < b.order;
    return a.npu < b.npu;
  }

  std::uint32_t open(Time time, std::int64_t stage) {
    std::uint32_t number;
    if (free_.empty()) {
      number = static_cast<std::uint32_t>(buckets_.size());
      buckets_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    buckets_[number].time = time;
    buckets_[number].stage = stage;
    heap_.push_back({time, stage, number});
    std::push_heap(heap_.begin(), heap_.end());
    return number;
  }

  void take(Bucket& bucket, std::vector<Event>& events) {
    if (events.empty()) {
      events.swap(bucket.events);
      breaks_.swap(bucket.breaks);
    } else {
      const auto offset = static_cast<std::uint32_t>(events.size());
      breaks_.push_back(offset);
      for (const std::uint32_t place : bucket.breaks) breaks_.push_back(offset + place);
      events.insert(events.end(), bucket.events.begin(), bucket.events.end());
    }
    bucket.events.clear();
    bucket.breaks.clear();
  }

  void close(std::uint32_t number) {
    Bucket& bucket = buckets_[number];
    bucket.time = -1;
    if (free_.size() > kRecent && bucket.events.capacity() > kKeptCapacity) std::vector<Event>().swap(bucket.events);
    free_.push_back(number);
  }

  // Merge the ordered runs of `events`, two by two.
  void merge(std::vector<Event>& events) {
    const auto less = [this](const Event& a, const Event& b) { return before(a, b); };
    runs_.assign(1, 0);
    runs_.insert(runs_.end(), breaks_.begin(), breaks_.end());
    runs_.push_back(static_cast<std::uint32_t>(events.size()));
    while (runs_.size() > 2) {
      std::size_t kept = 0;
      std::size_t run = 0;
      scratch_.resize(events.size());
      for (; run + 2 < runs_.size(); run += 2) {
        const auto begin = events.begin();
        std::merge(begin + runs_[run], begin + runs_[run + 1], begin + runs_[run + 1], begin + runs_[run + 2],
                   scratch_.begin() + runs_[run], less);
        runs_[kept++] = runs_[run];
      }
      if (run + 1 < runs_.size()) {
        std::copy(events.begin() + runs_[run], events.begin() + runs_[run + 1], scratch_.begin() + runs_[run]);
        runs_[kept++] = runs_[run];
      }
      runs_[kept++] = runs_.back();
      runs_.resize(kept);
      events.swap(scratch_);
    }
  }

  const Trails& trails_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> heap_;
  std::array<std::uint32_t, kRecent> recent_;
  std::vector<std::uint32_t> breaks_;
  std::vector<std::uint32_t> runs_;
  std::vector<Event> scratch_;
};

}  // namespace astra
