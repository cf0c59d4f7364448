// The wires of links that are narrower than a flit, one way: those that flits take, or those for credits.
//
// Such a link has a serializer at each end; it takes the next flit or credit when the last part of this one is on the wires.
#pragma once

#include <algorithm>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"

namespace astra::packet {

class NarrowWires {
 public:
  explicit NarrowWires(const Shape& shape) : shape_(shape), free_(shape.link.size()) {}

  // When what the wires of a channel take at `takes` arrives: the first cycle in which it is there. What is on the wires within a cycle of
  // its sender (`own`) is there without delay.
  Cycle arrival(int c, Cycle takes, Cycle own) {
    const ChannelSpec& spec = at(shape_->channel, c);
    Span& free = at(free_, c);
    Span start{takes + spec.serializer, 0};
    if (before(start, free)) start = free;
    free = plus(start, spec.flit_time);
    const Span there = plus(free, spec.latency);
    const Cycle last = there.cycles - own + spec.serializer + (there.ps > 0);
    if (own == 1) return last;
    const Span first = plus(start, spec.latency);
    return std::max(last, first.cycles + spec.serializer + (first.ps > 0));
  }

  void snapshot(Snapshot& snapshot, int c) const { snapshot.future(at(free_, c)); }
  void shift(Cycle later) {
    for (Span& free : free_) free.cycles += later;
  }

 private:
  static bool before(const Span& a, const Span& b) { return a.cycles < b.cycles || (a.cycles == b.cycles && a.ps < b.ps); }
  Span plus(Span a, const Span& b) const {
    a.cycles += b.cycles;
    a.ps += b.ps;
    if (a.ps >= shape_->rules.clock_ps) {
      a.ps -= shape_->rules.clock_ps;
      ++a.cycles;
    }
    return a;
  }

  Neighbour<const Shape> shape_;
  std::vector<Span> free_;  // by channel: when they can take the next
};

}  // namespace astra::packet
