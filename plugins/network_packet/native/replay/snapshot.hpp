// The complete state of a domain, as a row of numbers relative to the current cycle: each part of a domain writes its own.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "network/shape.hpp"

namespace astra::packet {

// The virtual channels of a channel, counted from one of them on, round.
//
// Interfaces give packets to virtual channels round-robin. Their numbers matter where the router has a choice between them, and nowhere
// else: so they are counted from the next in turn on, or a rhythm would not show before all have had their turn.
struct VcTurn {
  int first = 0;
  int count = 0;

  int back(int vc) const { return vc < first ? vc - first + count : vc - first; }
  int forth(int place) const { return place + first < count ? place + first : place + first - count; }
};

// Takes a snapshot or, with `compares`, reports whether the new one is the same as the last one.
class Snapshot {
 public:
  // `rotations`: by channel, how its virtual channels are counted.
  Snapshot(std::vector<std::int64_t>& values, std::vector<VcTurn> rotations, bool compares, Cycle now)
      : values_(values), turns_(std::move(rotations)), compares_(compares), now_(now) {
    if (!compares) values_.clear();
  }

  void put(std::int64_t value) {
    if (!compares_) {
      values_.push_back(value);
    } else {
      same_ = same_ && place_ < values_.size() && values_[place_] == value;
      ++place_;
    }
  }
  void time(Cycle value) { put(value - now_); }
  // A time that matters only if it is still to come.
  void future(const Span& value) {
    const bool past = value.cycles < now_ || (value.cycles == now_ && value.ps == 0);
    put(past ? 0 : value.cycles - now_);
    put(past ? 0 : value.ps);
  }
  Cycle now() const { return now_; }
  const VcTurn& turn(int channel) const { return at(turns_, channel); }
  // Nothing has differed so far. Once something has, the rest need not be written.
  bool same() const { return same_; }
  bool complete() const { return same_ && (!compares_ || place_ == values_.size()); }

 private:
  std::vector<std::int64_t>& values_;
  std::vector<VcTurn> turns_;
  bool compares_;
  Cycle now_;
  std::size_t place_ = 0;
  bool same_ = true;
};

}  // namespace astra::packet
