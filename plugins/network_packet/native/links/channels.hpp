// Links and their credits: everything between the output of one unit and the input of the next.
//
// A channel carries flits one way and credits the other way. Its sender counts the credits of every virtual channel, which are free places
// in the buffers at the other end, and knows which virtual channels are idle, that is, not given to a packet. All it knows of its receiver
// it learns through credits. A flit put on a channel in one cycle can be taken in a later one at the earliest, so the order in which the
// units of a cycle are visited has no effect.
#pragma once

#include <optional>
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
#include "links/serialized_credits.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "timing/clock.hpp"
#include "timing/garnet_event_order.hpp"

namespace astra::packet {

class Channels {
 public:
  Channels(const Shape& shape, Clock& clock, GarnetEventOrder& calls, Statistics& statistics);

  // A flit in a virtual channel, or a credit for a place in the buffer at the end of the channel, which the wires take from cycle `takes`
  // on. The credit of a tail `frees` the virtual channel.
  [[gnu::always_inline]] void send_flit(int c, const Flit& flit, int vc, Cycle takes) {
    const Link& way = link(c);
    statistics_->sent(c, flit.head);
    const Cycle time = way.delay >= 0 ? clock_->edge(way.sink, takes + way.delay) : narrow_arrival(c, takes);
    const Flit sent{time, flit.packet, narrow<std::uint16_t>(vc), flit.head, flit.tail};
    if (at(channels_, c).joins_threads) [[unlikely]] {
      at(handed_, clock_->thread_of(way.source)).flits.push_back({c, sent});
    } else {
      put(c, sent);
    }
  }
  [[gnu::always_inline]] void send_credit(int c, std::uint16_t vc, bool frees, Cycle takes) {
    Channel& channel = at(channels_, c);
    if (channel.delay < 0) [[unlikely]]
      return send_narrow_credit(c, vc, frees, takes);
    pass_credit(c, {clock_->edge(channel.source, takes + channel.delay), vc, frees});
  }
  // Flits that one thread has put on a channel to another (see thread_team.hpp) are on their way, at the end of a window.
  void settle();
  void employ(int threads);
  // The first flit has arrived, and at the end of a slower clock perhaps others since its last edge: calls receive(flit) for each.
  template <class Receive>
  void deliver(int c, Cycle now, Receive receive);
  // Credits that can be used by cycle `now` count from now on.
  [[gnu::always_inline]] void take_credits(int c, Cycle now) {
    if (parts_somewhere_) [[unlikely]]
      return take_called_credits(c, now);
    take_due_credits(c, now, [](const Credit&) {});
  }
  // Wakes the sender when a credit comes.
  void wait_for_credit(int c);

  int credits(int c, int vc) const { return at(credits_, at(channels_, c).first_credit + vc); }
  void use_credit(int c, int vc) { --at(credits_, at(channels_, c).first_credit + vc); }
  // Virtual channels that are not given to a packet, as a bit set.
  const std::uint64_t* idle(int c) const {
    const Channel& channel = at(channels_, c);
    return channel.many_idle < 0 ? &channel.idle : &at(many_idle_, channel.many_idle);
  }
  void give_vc(int c, int vc) { clear_bit(const_cast<std::uint64_t*>(idle(c)), vc); }
  void free_vc(int c, int vc) { set_bit(const_cast<std::uint64_t*>(idle(c)), vc); }
  // Free places at the end of the channel, an idle virtual channel counting twice: the criterion of adaptive routing.
  std::int64_t free_places(int c) const;
  // Whether a credit has come that can be used in cycle `usable` first.
  bool credit_usable_in(int c, Cycle usable) const;

  // The places of a virtual channel: credits, flits and credits under way, and (in parts of credits) those that are neither.
  struct Places {
    std::int64_t held = 0;       // credits of the sender, flits and credits under way
    std::int64_t parts = 1;      // of a credit
    std::int64_t under_way = 0;  // parts that are no credit yet
    std::int64_t buffers = 0;    // parts that there should be in all
  };
  Places places(int c, int vc) const;

  void snapshot(Snapshot& snapshot, const Messages& messages);
  void shift(Cycle later);
  // Everything in the virtual channels of a channel goes over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  // The sender's data, in a cache line.
  struct alignas(64) Channel {
    RingBuffer<Credit> credits;     // under way
    Cycle credit_due = kNever;      // when the first of them can be used
    std::uint64_t idle = 0;         // virtual channels, if there are up to 64
    std::int32_t many_idle = -1;    // if there are more: their first word among those of all such channels
    std::int32_t first_credit = 0;  // of its virtual channels, among the counts of all
    std::int32_t source = 0;        // unit
    std::int32_t delay = -1;        // as in Link
    std::int32_t handling = 0;      // cycles in which the sender handles a credit
    bool sender_waits = false;      // wake the sender when a credit comes
    bool joins_threads = false;     // its ends are run by two threads
  };
  // A thread's flits on channels to others since the last window.
  struct alignas(64) Handed {
    std::vector<std::pair<int, Flit>> flits;
    std::vector<std::pair<int, Credit>> credits;
  };
  static_assert(sizeof(Channel) == 64);
  // The wires of a channel that is narrower than a flit.
  struct Wires {
    Span free;                               // when they can take the next flit
    Span credit_free;                        // and, the other way, the next credit
    std::optional<SerializedCredits> parts;  // credits that the serializers may reorder
  };

  const Link& link(int c) const { return at(links_, c); }
  // A flit is on its way.
  void put(int c, const Flit& flit) {
    RingBuffer<Flit>& flits = at(flits_, c);
    if (link(c).delay >= 0 || flits.empty()) clock_->expect_flit(c, flit.time);
    flits.push(flit);
  }
  // If the wires are narrower than a flit: when a flit, or a credit, that they take from cycle `takes` on is at the other end.
  Cycle narrow_arrival(int c, Cycle takes);
  Cycle narrow_credit(int c, Cycle takes);
  void send_narrow_credit(int c, std::uint16_t vc, bool frees, Cycle takes);
  void send_parts(int c, std::uint16_t vc, bool frees, Cycle takes);
  // A credit that is with the sender at its time.
  [[gnu::always_inline]] void pass_credit(int c, const Credit& credit) {
    Channel& channel = at(channels_, c);
    if (channel.joins_threads) [[unlikely]] {
      at(handed_, clock_->thread_of(link(c).sink)).credits.push_back({c, credit});
    } else {
      put_credit(channel, credit);
    }
  }
  // It can be used when that has handled it.
  [[gnu::always_inline]] void put_credit(Channel& channel, Credit credit) {
    credit.time += channel.handling;
    if (channel.credits.empty()) channel.credit_due = credit.time;
    channel.credits.push(credit);
    if (!channel.sender_waits) [[likely]]
      return;
    channel.sender_waits = false;
    clock_->wake(channel.source, credit.time);
  }
  // Calls each(credit) for those that it takes.
  template <class Each>
  [[gnu::always_inline]] void take_due_credits(int c, Cycle now, Each each) {
    Channel& channel = at(channels_, c);
    if (channel.credit_due > now) return;
    std::int32_t* const counts = credits_.data() + channel.first_credit;
    RingBuffer<Credit>& credits = channel.credits;
    do {
      const Credit credit = credits.front();
      credits.pop();
      ++counts[credit.vc];
      if (credit.frees && wait_for_tail_credit_) free_vc(c, credit.vc);
      each(credit);
    } while (!credits.empty() && credits.front().time <= now);
    channel.credit_due = credits.empty() ? kNever : credits.front().time;
  }
  // The same if parts of credits may have become one, with the order in which they reach a router.
  void take_called_credits(int c, Cycle now);
  // Credits of which the last part leaves up to cycle `now` are on their way.
  void take_parts(int c, Cycle now);
  // Whether a credit that the receiver gives back in cycle `now` comes to the serializer, a cycle later, before the wires take their part
  // of that cycle.
  bool comes_before_part(int c, Cycle now);

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<GarnetEventOrder> calls_;
  Neighbour<Statistics> statistics_;
  std::span<const Link> links_;
  std::vector<Channel> channels_;
  std::vector<Wires> wires_;
  std::vector<RingBuffer<Flit>> flits_;  // under way, by channel
  std::vector<std::int32_t> credits_;    // by virtual channel; those of a sender are adjacent
  std::vector<std::uint64_t> many_idle_;
  bool wait_for_tail_credit_;     // a rule
  bool parts_somewhere_ = false;  // a channel has credits in parts
  std::vector<Handed> handed_;    // by thread
};

template <class Receive>
[[gnu::always_inline]] inline void Channels::deliver(int c, Cycle now, Receive receive) {
  RingBuffer<Flit>& flits = at(flits_, c);
  do {
    receive(std::as_const(flits).front());
    flits.pop();
  } while (clock_->units_differ() && !flits.empty() && flits.front().time <= now);
  if (link(c).delay < 0 && !flits.empty()) clock_->expect_flit(c, flits.front().time);
}

}  // namespace astra::packet
