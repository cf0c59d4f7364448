// Links, one way each: the port that sends on it, and the packets on the wire, of which only the first is among the events.
//
// A transmission schedules first that the port is free, then the arrival. The first is an event only where somebody waits for it; its
// place in the order is kept in any case.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "events.hpp"
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
      Wire& wire = wires_.emplace_back();
      wire.rate = link.rate;
      wire.delay = link.delay;
      wire.error_rate = link.error_rate;
      wire.loses = link.error_rate > 0;
      wire.leaves_npu = link.source < plan.npus;
      wire.enters_npu = link.target < plan.npus;
    }
  }

  std::int64_t rate(LinkId link) const { return wires_[link].rate; }
  bool is_up(LinkId link) const { return wires_[link].up; }
  void fail(LinkId link) {
    wires_[link].up = false;
    wires_[link].loses = true;
  }
  // Whether packets on the link may be lost, or are.
  bool loses(LinkId link) const { return wires_[link].loses; }
  bool leaves_npu(LinkId link) const { return wires_[link].leaves_npu; }
  bool enters_npu(LinkId link) const { return wires_[link].enters_npu; }
  double error_rate(LinkId link) const { return wires_[link].error_rate; }
  std::uint64_t bytes_sent(LinkId link) const { return wires_[link].sent; }
  Tick busy(LinkId link) const { return wires_[link].busy; }
  void snapshot(LinkId link, Snapshot& snapshot) const {
    const Wire& wire = wires_[link];
    snapshot.put(wire.rate);
    snapshot.put(wire.delay);
    snapshot.put(std::bit_cast<std::int64_t>(wire.error_rate));
    snapshot.put(wire.up ? 1 : 0);
  }
  // Count what is known to have happened on the link.
  void add(LinkId link, std::uint64_t bytes, Tick busy) {
    wires_[link].sent += bytes;
    wires_[link].busy += busy;
  }
  std::uint64_t on_the_way() const { return on_the_way_; }

  // Whether the port may send now.
  bool is_free(LinkId link) const {
    const Wire& wire = wires_[link];
    return wire.free_at < events_.now() || (wire.free_at == events_.now() && wire.free_order <= events_.current());
  }

  // Make an event of the moment at which the port is free, once.
  void tell_when_free(LinkId link) {
    Wire& wire = wires_[link];
    if (wire.told) return;
    wire.told = true;
    events_.at(wire.free_at, wire.free_order, What::port_free, link);
  }
  void told(LinkId link) { wires_[link].told = false; }

  void send(LinkId link, PacketId id) {
    Wire& wire = wires_[link];
    Packet& packet = packets_[id];
    const Tick time = time_of(wire, packet.kind == Kind::data ? 0 : 1, packet.bytes);
    wire.free_at = events_.now() + time;
    wire.free_order = events_.next_order();
    wire.busy += time;
    wire.sent += packet.bytes;
    packet.arrival = wire.free_at + wire.delay;
    packet.order = events_.next_order();
    if (wire.flying.empty()) events_.at(packet.arrival, packet.order, What::arrival, link);
    wire.flying.push(packets_, id);
    ++on_the_way_;
  }

  // The packet that arrives now. The next one on the wire takes its place among the events.
  PacketId arrive(LinkId link) {
    Wire& wire = wires_[link];
    const PacketId id = wire.flying.pop(packets_);
    if (!wire.flying.empty()) {
      const Packet& next = packets_[wire.flying.first];
      events_.at(next.arrival, next.order, What::arrival, link);
      if (next.next != kNone) packets_.prefetch(next.next);
    }
    --on_the_way_;
    return id;
  }

 private:
  // The last size of a packet, and what it takes.
  struct Usual {
    Tick time = 0;
    std::uint32_t bytes = 0;
  };
  struct alignas(64) Wire {
    Tick free_at = -1;
    std::uint64_t free_order = 0;
    Tick delay = 0;
    Fifo flying{};
    bool told = false;
    bool up = true;
    bool loses = false;
    bool leaves_npu = false;
    bool enters_npu = false;

    std::array<Usual, 2> usual{};  // of data, and of all other packets
    std::uint64_t sent = 0;
    Tick busy = 0;
    std::int64_t rate = 0;
    double error_rate = 0;
  };

  Tick time_of(Wire& wire, std::size_t kind, std::uint32_t bytes) const {
    Usual& usual = wire.usual[kind];
    if (usual.bytes != bytes) usual = {transmission(bytes + gap_bytes_, wire.rate, ticks_per_s_), bytes};
    return usual.time;
  }

  Tick ticks_per_s_;
  std::uint32_t gap_bytes_;
  Events& events_;
  Packets& packets_;
  std::vector<Wire> wires_;
  std::uint64_t on_the_way_ = 0;
};

}  // namespace astra::roce
