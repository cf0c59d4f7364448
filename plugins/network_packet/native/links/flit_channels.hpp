// Flits on links: everything between the output of one unit and the input of the next. Credits go the other way (credit_channels.hpp).
//
// A flit put on a channel in one cycle can be taken in a later one at the earliest, so the order in which the units of a cycle are visited
// has no effect.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "base/ring_buffer.hpp"
#include "base/statistics.hpp"
#include "interfaces/messages.hpp"
#include "links/handed.hpp"
#include "links/narrow_wires.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "timing/clock.hpp"

namespace astra::packet {

class FlitChannels {
 public:
  FlitChannels(const Shape& shape, Clock& clock, Statistics& statistics);

  // A flit in a virtual channel, which the wires take from cycle `takes` on.
  [[gnu::always_inline]] void send(int c, const Flit& flit, int vc, Cycle takes) {
    const Link& way = at(links_, c);
    statistics_->sent(c, flit.head);
    const Cycle time = way.delay >= 0 ? clock_->edge(way.sink, takes + way.delay) : narrow_arrival(c, takes);
    const Flit sent{time, flit.packet, narrow<std::uint16_t>(vc), flit.head, flit.tail};
    if (at(channels_, c).joins_threads) [[unlikely]] {
      handed_.add(clock_->thread_of(way.source), c, sent);
    } else {
      put(c, sent);
    }
  }
  // Flits that one thread has put on a channel to another (see thread_team.hpp) are on their way, at the end of a window.
  void settle();
  void employ(int threads);
  // The first flit has arrived, and at the end of a slower clock perhaps others since its last edge: calls receive(flit) for each.
  template <class Receive>
  void deliver(int c, Cycle now, Receive receive);

  // Flits under way in a virtual channel.
  std::int64_t count(int c, int vc) const;

  void snapshot(Snapshot& snapshot, const Messages& messages) const;
  void shift(Cycle later);
  // Everything in the virtual channels of a channel goes over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  struct Channel {
    RingBuffer<Flit> flits;      // under way
    bool joins_threads = false;  // its ends are run by two threads
  };
  // A flit is on its way.
  void put(int c, const Flit& flit) {
    RingBuffer<Flit>& flits = at(channels_, c).flits;
    if (at(links_, c).delay >= 0 || flits.empty()) clock_->expect_flit(c, flit.time);
    flits.push(flit);
  }
  // If the wires are narrower than a flit: when one that they take from cycle `takes` on is at the other end.
  Cycle narrow_arrival(int c, Cycle takes);

  Neighbour<Clock> clock_;
  Neighbour<Statistics> statistics_;
  std::span<const Link> links_;
  std::vector<Channel> channels_;
  NarrowWires wires_;
  Handed<Flit> handed_;
};

template <class Receive>
[[gnu::always_inline]] inline void FlitChannels::deliver(int c, Cycle now, Receive receive) {
  RingBuffer<Flit>& flits = at(channels_, c).flits;
  do {
    receive(std::as_const(flits).front());
    flits.pop();
  } while (clock_->units_differ() && !flits.empty() && flits.front().time <= now);
  if (at(links_, c).delay < 0 && !flits.empty()) clock_->expect_flit(c, flits.front().time);
}

}  // namespace astra::packet
