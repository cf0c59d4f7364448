// The clock of a domain: which cycle it is, which units act in which later one, and when flits on links arrive.
//
// Units are routers and, after them, the lanes of network interfaces. Those with slower clocks act in every so many-th cycle only (their
// divider): whatever is scheduled for them waits for the next edge of their clock.
#pragma once

#include <algorithm>

#include "calendar.hpp"
#include "flit.hpp"
#include "shape.hpp"

namespace astra::packet {

class Clock {
 public:
  explicit Clock(const Shape& shape)
      : dividers_(shape.divider.empty() ? nullptr : shape.divider.data()),
        arrivals_(shape.channels(), shape.horizon),
        calendar_(shape.units(), shape.horizon) {}

  Cycle now() const { return now_; }    // the last cycle that was run, or the one that is
  Cycle next() const { return next_; }  // the next one in which anything happens, or kNever
  bool units_differ() const { return dividers_ != nullptr; }

  // Cycles of a unit, in cycles of the network; and the other way: which of its own cycles one of the network is.
  Cycle cycles_of(int unit, Cycle own) const {
    if (dividers_ == nullptr) [[likely]]
      return own;
    return own * dividers_[unit];
  }
  Cycle own_cycle(int unit, Cycle time) const {
    if (dividers_ == nullptr) [[likely]]
      return time;
    return time / dividers_[unit];
  }
  // The first cycle from `time` on in which a unit acts.
  Cycle edge(int unit, Cycle time) const {
    if (dividers_ == nullptr) [[likely]]
      return time;
    return later_edge(unit, time);
  }

  // A unit acts in that cycle or, if that is no edge of its clock, in the next that is.
  void wake(int unit, Cycle time) {
    time = edge(unit, time);
    calendar_.add(unit, time);
    if (time < next_) next_ = time;
  }
  // The first flit on a channel arrives then.
  void expect_flit(int channel, Cycle time) { arrivals_.add(channel, time); }

  // Runs a cycle: calls arrive(channel) where flits arrive, then act(unit) for the units that are awake. Inlined, as the closures would
  // otherwise be written to memory in every cycle.
  template <class Arrive, class Act>
  [[gnu::always_inline]] void run(Cycle time, Arrive arrive, Act act) {
    now_ = time;
    arrivals_.take(time, arrive);
    next_ = kNever;
    calendar_.take(time, act);
    if (next_ != time + 1) next_ = std::min(calendar_.next(time + 1), arrivals_.next(time + 1));
  }

  // Everything happens so many cycles later.
  void shift(Cycle later) {
    arrivals_.shift(later);
    calendar_.shift(later);
    now_ += later;
    if (next_ != kNever) next_ += later;
  }

 private:
  Cycle later_edge(int unit, Cycle time) const;

  const Cycle* dividers_;  // by unit; nullptr: all act in every cycle
  Calendar arrivals_;      // of flits, by channel
  Calendar calendar_;      // of work, by unit
  Cycle now_ = -1;
  Cycle next_ = kNever;
};

}  // namespace astra::packet
