// The queue pairs of an interface, in the order in which they take turns, and which of them could send.
//
// An interface with hundreds of messages looks for the next one that may send after each packet. So what decides it stands here side by
// side, and not with the messages: a bit of each pair that has something to send and room in its window, a bit of each that has finished,
// and the times before which they may not send.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "types.hpp"

namespace astra::roce {

class QueuePairs {
 public:
  struct State {
    bool can_send = false;  // it has bytes left, and its window has room
    bool finished = false;
    Tick next_time = 0;  // before which it may not send
  };

  bool empty() const { return flows_.empty(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(flows_.size()); }
  FlowId flow(std::uint32_t place) const { return flows_[place]; }

  // Returns its place.
  std::uint32_t add(FlowId flow, std::uint8_t queue, const State& state) {
    const std::uint32_t place = count();
    flows_.push_back(flow);
    queues_.push_back(queue);
    times_.push_back(0);
    if (can_send_.size() * kBits < flows_.size()) {
      can_send_.push_back(0);
      finished_.push_back(0);
    }
    set(place, state);
    return place;
  }

  void set(std::uint32_t place, const State& state) {
    put(can_send_, place, state.can_send);
    put(finished_, place, state.finished);
    times_[place] = state.next_time;
  }

  // The first place after `last`, round, whose pair may send now; kNone where there is none. Bits of `paused` are queues that may not.
  std::uint32_t next(std::uint32_t last, Tick now, unsigned paused) const {
    const std::uint32_t after = last + 1;
    const std::uint32_t place = first_ready(after, count(), now, paused);
    return place != kNone ? place : first_ready(0, std::min(after, count()), now, paused);
  }

  // The first place with a pair that has finished, of those from `last` on, round, up to `place` or to all if that is kNone.
  std::uint32_t first_finished(std::uint32_t last, std::uint32_t place) const {
    const std::uint32_t after = last + 1;
    if (place != kNone && place > last) return first_of(finished_, after, place);
    const std::uint32_t early = first_of(finished_, 0, place == kNone ? std::min(after, count()) : place);
    return early != kNone ? early : first_of(finished_, after, count());
  }

  // Takes out all that have finished, from a place on. `gone` is told of each, `moved` of those that have another place now.
  template <class Gone, class Moved>
  void take_finished(std::uint32_t from, Gone gone, Moved moved) {
    std::uint32_t end = from;
    for (std::uint32_t place = from; place < count(); ++place) {
      if (has(finished_, place)) {
        gone(flows_[place]);
        continue;
      }
      const State state{has(can_send_, place), false, times_[place]};
      flows_[end] = flows_[place];
      queues_[end] = queues_[place];
      set(end, state);
      moved(flows_[end], place, end);
      ++end;
    }
    resize(end);
  }

  // Takes out all.
  std::vector<FlowId> take_all() {
    std::vector<FlowId> all = std::move(flows_);
    resize(0);
    return all;
  }

  // The earliest time of all pairs, or of those that can send but for it.
  Tick earliest() const {
    Tick earliest = kNever;
    for (const Tick time : times_) earliest = std::min(earliest, time);
    return earliest;
  }
  Tick earliest_ready(unsigned paused) const {
    Tick earliest = kNever;
    for (std::uint32_t place = first_of(can_send_, 0, count()); place != kNone; place = first_of(can_send_, place + 1, count())) {
      if ((paused >> queues_[place] & 1) == 0) earliest = std::min(earliest, times_[place]);
    }
    return earliest;
  }

 private:
  using Bits = std::vector<std::uint64_t>;
  static constexpr std::uint32_t kBits = 64;

  static bool has(const Bits& bits, std::uint32_t place) { return (bits[place / kBits] >> place % kBits & 1) != 0; }
  static void put(Bits& bits, std::uint32_t place, bool value) {
    const std::uint64_t bit = std::uint64_t{1} << place % kBits;
    std::uint64_t& word = bits[place / kBits];
    word = value ? word | bit : word & ~bit;
  }
  // The first place from `from` up to before `end` whose bit is set.
  static std::uint32_t first_of(const Bits& bits, std::uint32_t from, std::uint32_t end) {
    if (from >= end) return kNone;
    std::uint32_t word = from / kBits;
    std::uint64_t left = bits[word] & ~std::uint64_t{0} << from % kBits;
    while (left == 0) {
      if (++word * kBits >= end) return kNone;
      left = bits[word];
    }
    const std::uint32_t place = word * kBits + static_cast<std::uint32_t>(std::countr_zero(left));
    return place < end ? place : kNone;
  }
  std::uint32_t first_ready(std::uint32_t from, std::uint32_t end, Tick now, unsigned paused) const {
    for (std::uint32_t place = first_of(can_send_, from, end); place != kNone; place = first_of(can_send_, place + 1, end)) {
      if (times_[place] <= now && (paused >> queues_[place] & 1) == 0) return place;
    }
    return kNone;
  }
  void resize(std::uint32_t count) {
    for (std::uint32_t place = count; place < times_.size(); ++place) set(place, {});
    flows_.resize(count);
    queues_.resize(count);
    times_.resize(count);
    can_send_.resize((count + kBits - 1) / kBits);
    finished_.resize((count + kBits - 1) / kBits);
  }

  std::vector<FlowId> flows_;
  std::vector<std::uint8_t> queues_;  // of each its priority group
  std::vector<Tick> times_;
  Bits can_send_;
  Bits finished_;
};

}  // namespace astra::roce
