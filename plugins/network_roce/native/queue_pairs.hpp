// The queue pairs of an interface, in the order in which they take turns, and which of them could send.
//
// An interface with hundreds of messages looks for the next one that may send after each packet. So the deciding fields are here side by
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

  bool empty() const { return pairs_.empty(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(pairs_.size()); }
  FlowId flow(std::uint32_t place) const { return pairs_[place].flow; }

  // Returns its place.
  std::uint32_t add(FlowId flow, std::uint8_t queue, const State& state) {
    const std::uint32_t place = count();
    pairs_.push_back({0, flow, queue});
    if (place / kBits > further_.size()) further_.emplace_back();
    set(place, state);
    return place;
  }

  void set(std::uint32_t place, const State& state) {
    Bits& bits = bits_of(place / kBits);
    bits.can_send = with(bits.can_send, place % kBits, state.can_send);
    bits.finished = with(bits.finished, place % kBits, state.finished);
    pairs_[place].next_time = state.next_time;
  }

  // The first place after `last`, round, whose pair may send now; kNone if there is none. Bits of `paused` are queues that may not.
  std::uint32_t next(std::uint32_t last, Tick now, unsigned paused) const {
    const std::uint32_t after = last + 1;
    const std::uint32_t place = first_ready(after, count(), now, paused);
    return place != kNone ? place : first_ready(0, std::min(after, count()), now, paused);
  }

  // The first place with a pair that has finished, of those from `last` on, round, up to `place` or to all if that is kNone.
  std::uint32_t first_finished(std::uint32_t last, std::uint32_t place) const {
    if (count() <= kBits && first_.finished == 0) return kNone;
    const std::uint32_t after = last + 1;
    if (place != kNone && place > last) return first_of(&Bits::finished, after, place);
    const std::uint32_t early = first_of(&Bits::finished, 0, place == kNone ? std::min(after, count()) : place);
    return early != kNone ? early : first_of(&Bits::finished, after, count());
  }

  // Takes out all that have finished, from a place on. `gone` is called for each, `moved` for those that have another place now.
  template <class Gone, class Moved>
  void take_finished(std::uint32_t from, Gone gone, Moved moved) {
    std::uint32_t end = from;
    for (std::uint32_t place = from; place < count(); ++place) {
      const Bits& bits = bits_of(place / kBits);
      if (has(bits.finished, place % kBits)) {
        gone(pairs_[place].flow);
        continue;
      }
      const State state{has(bits.can_send, place % kBits), false, pairs_[place].next_time};
      pairs_[end] = pairs_[place];
      set(end, state);
      moved(pairs_[end].flow, place, end);
      ++end;
    }
    resize(end);
  }

  // Takes out all.
  std::vector<FlowId> take_all() {
    std::vector<FlowId> all;
    for (const Pair& pair : pairs_) all.push_back(pair.flow);
    resize(0);
    return all;
  }

  // The earliest time of all pairs, or of those that can send but for it.
  Tick earliest() const {
    Tick earliest = kNever;
    for (const Pair& pair : pairs_) earliest = std::min(earliest, pair.next_time);
    return earliest;
  }
  Tick earliest_ready(unsigned paused) const {
    Tick earliest = kNever;
    for (std::uint32_t place = first_of(&Bits::can_send, 0, count()); place != kNone;
         place = first_of(&Bits::can_send, place + 1, count())) {
      if ((paused >> pairs_[place].queue & 1) == 0) earliest = std::min(earliest, pairs_[place].next_time);
    }
    return earliest;
  }

 private:
  static constexpr std::uint32_t kBits = 64;

  struct Pair {
    Tick next_time;
    FlowId flow;
    std::uint8_t queue;  // its priority group
  };
  // With a number of pairs.
  struct Bits {
    std::uint64_t can_send = 0;
    std::uint64_t finished = 0;
  };

  Bits& bits_of(std::uint32_t word) { return word == 0 ? first_ : further_[word - 1]; }
  const Bits& bits_of(std::uint32_t word) const { return word == 0 ? first_ : further_[word - 1]; }
  static bool has(std::uint64_t bits, std::uint32_t place) { return (bits >> place & 1) != 0; }
  static std::uint64_t with(std::uint64_t bits, std::uint32_t place, bool value) {
    return (bits & ~(std::uint64_t{1} << place)) | std::uint64_t{value} << place;
  }
  // The first place from `from` up to before `end` whose bit is set.
  std::uint32_t first_of(std::uint64_t Bits::* kind, std::uint32_t from, std::uint32_t end) const {
    if (from >= end) return kNone;
    std::uint32_t word = from / kBits;
    std::uint64_t left = bits_of(word).*kind & ~std::uint64_t{0} << from % kBits;
    while (left == 0) {
      if (++word * kBits >= end) return kNone;
      left = bits_of(word).*kind;
    }
    const std::uint32_t place = word * kBits + static_cast<std::uint32_t>(std::countr_zero(left));
    return place < end ? place : kNone;
  }
  std::uint32_t first_ready(std::uint32_t from, std::uint32_t end, Tick now, unsigned paused) const {
    for (std::uint32_t place = first_of(&Bits::can_send, from, end); place != kNone; place = first_of(&Bits::can_send, place + 1, end)) {
      if (pairs_[place].next_time <= now && (paused >> pairs_[place].queue & 1) == 0) return place;
    }
    return kNone;
  }
  void resize(std::uint32_t count) {
    for (std::uint32_t place = count; place < pairs_.size(); ++place) set(place, {});
    pairs_.resize(count);
    further_.resize(count <= kBits ? 0 : (count - 1) / kBits);
  }

  Bits first_;
  std::vector<Pair> pairs_;
  std::vector<Bits> further_;  // beyond the first
};

}  // namespace astra::roce
