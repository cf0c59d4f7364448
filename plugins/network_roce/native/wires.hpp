// Links, one way each: the port that sends on it. A packet on the wire is an event, its arrival.
//
// A transmission schedules first that the port is free, then the arrival. The first is an event only if something waits for it; its
// place in the order is kept in any case.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "events.hpp"
#include "large_array.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"
#include "snapshot.hpp"
#include "types.hpp"

namespace astra::roce {

class Wires {
 public:
  Wires(const Settings& settings, const Plan& plan, Events& events, Packets& packets)
      : ticks_per_s_(settings.ticks_per_ns * 1'000'000'000), gap_bytes_(settings.gap_bytes), events_(events), packets_(packets) {
    wires_.reserve(plan.links.size());
    for (const LinkSpec& link : plan.links) {
      wires_.emplace_back().delay = link.delay;
      rates_.push_back({link.rate, link.error_rate});
      unsigned traits = kUp;
      if (link.error_rate > 0) traits |= kLoses;
      if (link.source < plan.npus) traits |= kLeavesNpu;
      if (link.target < plan.npus) traits |= kEntersNpu;
      traits_.push_back(static_cast<std::uint8_t>(traits));
    }
  }

  std::int64_t rate(LinkId link) const { return rates_[link].rate; }
  bool is_up(LinkId link) const { return has(link, kUp); }
  void fail(LinkId link) { traits_[link] = static_cast<std::uint8_t>((traits_[link] | kLoses) & ~kUp); }
  // Whether packets on the link may be lost, or are.
  bool loses(LinkId link) const { return has(link, kLoses); }
  bool leaves_npu(LinkId link) const { return has(link, kLeavesNpu); }
  bool enters_npu(LinkId link) const { return has(link, kEntersNpu); }
  double error_rate(LinkId link) const { return rates_[link].error_rate; }
  std::uint64_t bytes_sent(LinkId link) const { return wires_[link].sent; }
  Tick busy(LinkId link) const { return wires_[link].busy; }
  void snapshot(LinkId link, Snapshot& snapshot) const {
    snapshot.put(rate(link));
    snapshot.put(wires_[link].delay);
    snapshot.put(std::bit_cast<std::int64_t>(error_rate(link)));
    snapshot.put(is_up(link) ? 1 : 0);
  }
  // Count the events known to have happened on the link.
  void add(LinkId link, std::uint64_t bytes, Tick busy) {
    wires_[link].sent += bytes;
    wires_[link].busy += busy;
  }
  std::uint64_t on_the_way() const { return on_the_way_; }

  // Whether the port may send now.
  bool is_free(LinkId link) const {
    const Wire& wire = wires_[link];
    const auto earlier = static_cast<unsigned>(wire.free_at < events_.now());
    const auto same = static_cast<unsigned>(wire.free_at == events_.now());
    const auto in_turn = static_cast<unsigned>(wire.free_order <= events_.current());
    return (earlier | (same & in_turn)) != 0;  // one branch instead of two that cannot be predicted
  }

  // Make an event of the moment at which the port is free, once.
  void tell_when_free(LinkId link) {
    if (has(link, kTold)) return;
    traits_[link] |= kTold;
    const Wire& wire = wires_[link];
    events_.at(wire.free_at, wire.free_order, leaves_npu(link) ? EventKind::nic_free : EventKind::port_free, link);
  }
  void reported(LinkId link) { traits_[link] &= static_cast<std::uint8_t>(~kTold); }

  void send(LinkId link, PacketId id) {
    Wire& wire = wires_[link];
    Packet& packet = packets_[id];
    const Tick time = time_of(link, packet.kind == Kind::data ? 0 : 1, packet.bytes);
    wire.free_at = events_.now() + time;
    wire.free_order = events_.next_order();
    wire.busy += time;
    wire.sent += packet.bytes;
    packet.came_by = link;
    const EventKind what = enters_npu(link) ? EventKind::end : EventKind::arrival;
    events_.at(wire.free_at + wire.delay, events_.next_order(), what, id, link);
    ++on_the_way_;
  }
  void arrives() { --on_the_way_; }

  // For prefetching: the state of links, each of `kBytes`.
  static constexpr std::size_t kBytes = 64;
  const void* data() const { return wires_.data(); }

 private:
  static constexpr std::uint8_t kUp = 1;
  static constexpr std::uint8_t kLoses = 2;
  static constexpr std::uint8_t kLeavesNpu = 4;
  static constexpr std::uint8_t kEntersNpu = 8;
  static constexpr std::uint8_t kTold = 16;

  struct alignas(64) Wire {
    Tick free_at = -1;
    std::uint64_t free_order = 0;
    Tick delay = 0;
    // The last size of a packet, and its time: of data, and of all other packets.
    std::array<Tick, 2> usual_time{};
    std::array<std::uint32_t, 2> usual_bytes{};
    std::uint64_t sent = 0;
    Tick busy = 0;
  };
  static_assert(sizeof(Wire) == kBytes);
  struct Rate {
    std::int64_t rate;
    double error_rate;
  };

  bool has(LinkId link, std::uint8_t trait) const { return (traits_[link] & trait) != 0; }

  Tick time_of(LinkId link, std::size_t kind, std::uint32_t bytes) {
    Wire& wire = wires_[link];
    if (wire.usual_bytes[kind] != bytes) {
      wire.usual_bytes[kind] = bytes;
      wire.usual_time[kind] = transmission(bytes + gap_bytes_, rate(link), ticks_per_s_);
    }
    return wire.usual_time[kind];
  }

  Tick ticks_per_s_;
  std::uint32_t gap_bytes_;
  Events& events_;
  Packets& packets_;
  LargeArray<Wire> wires_;
  std::vector<Rate> rates_;
  std::vector<std::uint8_t> traits_;  // of each link, side by side, since every packet asks for them
  std::uint64_t on_the_way_ = 0;
};

}  // namespace astra::roce
