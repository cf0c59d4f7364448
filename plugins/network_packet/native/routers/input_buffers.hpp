// Input buffers of routers: the flits of every virtual channel, and the state of the packet in front at the router.
//
// Inside a tile, a flit that is put on a link goes straight into the buffer at its end, with the time from which the router sees it.
// Between tiles, on narrow links and where routers have clocks of their own it is queued (see flit_channels.hpp).
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "base/ring_buffer.hpp"
#include "base/statistics.hpp"
#include "interfaces/messages.hpp"
#include "links/credit_channels.hpp"
#include "links/flit_channels.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "timing/clock.hpp"

namespace astra::packet {

enum class VcState : std::uint8_t { idle, allocating, active };

struct alignas(64) InputVc {  // in a cache line
  RingBuffer<Flit> buffer;
  Cycle since = 0;            // combined: arrival of the head; staged: when it can ask for an output virtual channel
  std::int32_t out = -1;      // channel
  std::int32_t way = -1;      // two packets go the same way: to one output or, of a quotient network, to translates of it at one distance
  std::int16_t out_port = 0;  // its number among the outputs of the router
  std::int16_t first_vc = 0;  // the virtual channels there that the packet may take
  std::int16_t end_vc = 0;
  std::int16_t out_vc = -1;  // the one it has
  std::int32_t channel = 0;  // it belongs to, its number there, and the channel's place among the inputs of the router
  std::int16_t number = 0;
  std::uint16_t input = 0;
  std::int32_t arrived = 0;  // flits of the buffer that are there: the first ones
  VcState state = VcState::idle;
};

static_assert(sizeof(InputVc) == 64);

class InputBuffers {
 public:
  InputBuffers(const Shape& shape, Clock& clock, FlitChannels& flit_channels, CreditChannels& credits, Statistics& statistics);

  InputVc& vc(int c, int number) { return at(vcs_, at(links_, c).vc_base + number); }
  const InputVc& vc(int c, int number) const { return at(vcs_, at(links_, c).vc_base + number); }
  InputVc* of_channel(int c) { return vcs_.data() + at(links_, c).vc_base; }
  // The virtual channels of a router's inputs, which are adjacent.
  InputVc* of_router(int r) { return vcs_.data() + at(shape_->vc_base, r); }

  // A flit in a virtual channel, which the wires take from cycle `takes` on.
  [[gnu::always_inline]] void send_flit(int c, const Flit& flit, int vc, Cycle takes) {
    const Entry& entry = at(entries_, c);
    if (entry.delay < 0) return flit_channels_->send(c, flit, vc, takes);
    statistics_->sent(c, flit.head);
    const Cycle time = takes + entry.delay;
    at(vcs_, entry.vc_base + vc).buffer.push({time, flit.packet, narrow<std::uint16_t>(vc), flit.head, flit.tail});
    note_arrival(entry, vc, time);
  }
  // A flit that was queued has come, in cycle `now`. Returns whether its router takes it with the others of the cycle.
  bool take_queued(int c, const Flit& flit, Cycle now) {
    const Entry& entry = at(entries_, c);
    vc(c, flit.vc).buffer.push(flit);
    if (entry.word < 0) return false;
    note_arrival(entry, flit.vc, now);
    return true;
  }
  // Calls visit(local, virtual channel) for those of a router's inputs to which a flit comes in cycle `now`, in order.
  template <class Visit>
  [[gnu::always_inline]] void take_arrivals(int r, Cycle now, Visit visit) {
    InputVc* const vcs = of_router(r);
    std::uint64_t* const arrivals = arrivals_at(now);
    for (std::size_t word = at(words_, r); word < at(words_, r + 1); ++word) {
      const int first = narrow<int>(word - at(words_, r)) * 64;
      std::uint64_t rest = std::exchange(arrivals[word], 0);
      for (; rest != 0; rest &= rest - 1) visit(first + lowest(rest), vcs[first + lowest(rest)]);
    }
  }

  // The first flit of a virtual channel goes through the crossbar to the output that its packet has; its credit goes back. The router's
  // cycle takes several of the network.
  [[gnu::always_inline]] void forward(InputVc& from, Cycle now, Cycle cycle) {
    const Rules& rules = *rules_;
    const int c = from.channel;
    const int out = from.out;
    const Flit flit = from.buffer.front();
    from.buffer.pop();
    statistics_->add(c, Statistics::kChannelWaiting, now - flit.time);
    credits_->use(out, from.out_vc);
    if (flit.tail) {
      from.state = VcState::idle;
      if (!rules.waits_for_tail_credit()) credits_->free_vc(out, from.out_vc);
    }
    --from.arrived;
    send_flit(out, flit, from.out_vc, now + rules.switch_traversal() * cycle);
    credits_->send(c, narrow<std::uint16_t>(from.number), flit.tail, now + cycle);
  }

  bool any_flits() const;
  // Packets in a buffer follow one another, each from head to tail.
  bool in_order(int c, int number) const;

  void snapshot(Snapshot& snapshot, const Messages& messages) const;
  void shift(Cycle later);
  // Everything in the virtual channels of a channel goes over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  // The end of a channel.
  struct Entry {
    std::int32_t vc_base = 0;  // its first virtual channel among those of all channels,
    std::int32_t word = -1;    // and in sets of arrivals: a word (-1: it has no set), and a bit there
    std::int32_t router = 0;
    std::int16_t delay = -1;  // cycles on the way; -1: flits are queued
    std::uint8_t bit = 0;
  };
  static_assert(sizeof(Entry) == 16);

  // The virtual channels of routers' inputs to which a flit comes in a cycle: each router has some words.
  std::uint64_t* arrivals_at(Cycle time) { return arrivals_.data() + (index(time) & (slots_ - 1)) * words_.back(); }
  // A flit comes to a router in that cycle, or has come in this one.
  [[gnu::always_inline]] void note_arrival(const Entry& entry, int vc, Cycle time) {
    std::uint64_t* const word = arrivals_at(time) + entry.word + ((entry.bit + vc) >> 6);
    if (*word == 0) clock_->wake(entry.router, time);
    *word |= 1ULL << ((entry.bit + vc) & 63);
  }
  bool has_sets(int c) const;
  bool goes_straight(int c) const;
  // The flits that come to a virtual channel, from where its buffer is.
  void mark_arrivals(const InputVc& vc);

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<FlitChannels> flit_channels_;
  Neighbour<CreditChannels> credits_;
  Neighbour<Statistics> statistics_;
  Neighbour<const Rules> rules_;
  std::span<const Link> links_;
  std::vector<InputVc> vcs_;
  std::vector<Entry> entries_;           // by channel
  std::size_t slots_ = 1;                // cycles ahead in which flits may come, rounded to a power of two
  std::vector<std::size_t> words_{0};    // by router and past the last: its first word in a set
  std::vector<std::uint64_t> arrivals_;  // [cycle modulo slots][word]
};

}  // namespace astra::packet
