// Credits on links, the other way than flits, and what a sender knows of the buffers at the other end.
//
// A sender counts the credits of every virtual channel, which are free places in the buffer there, and knows which virtual channels are
// idle, that is, not given to a packet. All it knows of its receiver it learns through credits. A credit put on a channel in one cycle can
// be used in a later one at the earliest, so the order in which the units of a cycle are visited has no effect.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "base/ring_buffer.hpp"
#include "links/credit_serializers.hpp"
#include "links/handed.hpp"
#include "links/narrow_wires.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "timing/clock.hpp"
#include "timing/garnet_event_order.hpp"

namespace astra::packet {

class CreditChannels {
 public:
  CreditChannels(const Shape& shape, Clock& clock, GarnetEventOrder& calls);

  // A credit for a place in the buffer at the end of a channel, which the wires take from cycle `takes` on. That of a tail `frees` the
  // virtual channel.
  [[gnu::always_inline]] void send(int c, std::uint16_t vc, bool frees, Cycle takes) {
    Channel& channel = at(channels_, c);
    if (channel.delay < 0) [[unlikely]]
      return send_narrow(c, vc, frees, takes);
    pass(c, {clock_->edge(channel.source, takes + channel.delay), vc, frees});
  }
  // Credits that one thread has put on a channel to another (see thread_team.hpp) are on their way, at the end of a window.
  void settle();
  void employ(int threads);
  // Credits that can be used by cycle `now` count from now on.
  [[gnu::always_inline]] void take(int c, Cycle now) {
    if (serializers_.any()) [[unlikely]]
      return take_called(c, now);
    take_due(c, now, [](const Credit&) {});
  }
  // Whether a virtual channel has that many credits by cycle `now`. Those that have come are only taken if there are too few without them.
  [[gnu::always_inline]] bool has_credits(int c, int vc, int needed, Cycle now) {
    if (count(c, vc) >= needed && !serializers_.any()) return true;
    take(c, now);
    return count(c, vc) >= needed;
  }
  // Wakes the sender when a credit comes after cycle `now`.
  void wait_for_credit(int c, Cycle now);

  int count(int c, int vc) const { return at(counts_, at(channels_, c).first_count + vc); }
  void use(int c, int vc) { --at(counts_, at(channels_, c).first_count + vc); }
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
  bool usable_in(int c, Cycle usable) const;

  // The places of a virtual channel: credits, and (in parts of credits) those that are neither credits nor flits.
  struct Places {
    std::int64_t held = 0;       // credits of the sender, and credits under way
    std::int64_t parts = 1;      // of a credit
    std::int64_t under_way = 0;  // parts that are no credit yet
    std::int64_t buffers = 0;    // parts that there should be in all
  };
  Places places(int c, int vc) const;

  void snapshot(Snapshot& snapshot);
  void shift(Cycle later);
  // Everything in the virtual channels of a channel goes over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  // The sender's data, in a cache line.
  struct alignas(64) Channel {
    RingBuffer<Credit> credits;    // under way
    Cycle credit_due = kNever;     // when the first of them can be used
    std::uint64_t idle = 0;        // virtual channels, if there are up to 64
    std::int32_t many_idle = -1;   // if there are more: their first word among those of all such channels
    std::int32_t first_count = 0;  // of its virtual channels, among the counts of all
    std::int32_t source = 0;       // unit
    std::int32_t delay = -1;       // as in Link
    std::int32_t handling = 0;     // cycles in which the sender handles a credit
    bool sender_waits = false;     // wake the sender when a credit comes
    bool joins_threads = false;    // its ends are run by two threads
  };
  static_assert(sizeof(Channel) == 64);
  void send_narrow(int c, std::uint16_t vc, bool frees, Cycle takes);
  void send_parts(int c, std::uint16_t vc, bool frees, Cycle takes);
  // A credit that is with the sender at its time.
  [[gnu::always_inline]] void pass(int c, const Credit& credit) {
    Channel& channel = at(channels_, c);
    if (channel.joins_threads) [[unlikely]] {
      handed_.add(clock_->thread_of(at(links_, c).sink), c, credit);
    } else {
      put(channel, credit);
    }
  }
  // It can be used when that has handled it.
  [[gnu::always_inline]] void put(Channel& channel, Credit credit) {
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
  [[gnu::always_inline]] void take_due(int c, Cycle now, Each each) {
    Channel& channel = at(channels_, c);
    if (channel.credit_due > now) return;
    std::int32_t* const counts = counts_.data() + channel.first_count;
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
  void take_called(int c, Cycle now);
  // Credits of which the last part leaves up to cycle `now` are on their way.
  void take_parts(int c, Cycle now);
  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  std::span<const Link> links_;
  std::vector<Channel> channels_;
  NarrowWires wires_;
  CreditSerializers serializers_;
  std::vector<std::int32_t> counts_;  // by virtual channel; those of a sender are adjacent
  std::vector<std::uint64_t> many_idle_;
  bool wait_for_tail_credit_;  // a rule
  Handed<Credit> handed_;
};

}  // namespace astra::packet
