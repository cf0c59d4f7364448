// Links, one way each: the port that sends on it, and the packets on the wire, of which only the first is in the heap.
//
// A transmission schedules first that the port is free, then the arrival. The first is an event only where somebody waits for it; its
// place in the order is kept in any case.
#pragma once

#include <cstdint>
#include <vector>

#include "events.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

class Wires {
 public:
  Wires(const Settings& settings, const Plan& plan, Events& events, Packets& packets)
      : ticks_per_s_(settings.ticks_per_ns * 1'000'000'000), gap_bytes_(settings.gap_bytes), events_(events), packets_(packets) {
    for (const LinkSpec& link : plan.links) wires_.push_back({link.rate, link.delay, link.error_rate});
  }

  std::int64_t rate(LinkId link) const { return wires_[link].rate; }
  bool is_up(LinkId link) const { return wires_[link].up; }
  void fail(LinkId link) { wires_[link].up = false; }
  double error_rate(LinkId link) const { return wires_[link].error_rate; }
  std::uint64_t bytes_sent(LinkId link) const { return wires_[link].sent; }
  Tick busy(LinkId link) const { return wires_[link].busy; }
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
    if (packet.bytes != wire.usual_bytes) {
      wire.usual_bytes = packet.bytes;
      wire.usual_time = transmission(packet.bytes + gap_bytes_, wire.rate, ticks_per_s_);
    }
    wire.free_at = events_.now() + wire.usual_time;
    wire.free_order = events_.next_order();
    wire.busy += wire.usual_time;
    wire.sent += packet.bytes;
    packet.arrival = wire.free_at + wire.delay;
    packet.order = events_.next_order();
    if (wire.flying.empty()) events_.at(packet.arrival, packet.order, What::arrival, link);
    wire.flying.push(packets_, id);
    ++on_the_way_;
  }

  // The packet that arrives now. The next one on the wire takes its event.
  PacketId arrive(LinkId link) {
    Wire& wire = wires_[link];
    const PacketId id = wire.flying.pop(packets_);
    if (!wire.flying.empty()) {
      const Packet& next = packets_[wire.flying.first];
      events_.at(next.arrival, next.order, What::arrival, link);
    }
    --on_the_way_;
    return id;
  }

 private:
  struct Wire {
    std::int64_t rate;
    Tick delay;
    double error_rate;
    Tick free_at = -1;
    std::uint64_t free_order = 0;
    Fifo flying{};
    std::uint32_t usual_bytes = 0;  // the last size, and what it takes
    Tick usual_time = 0;
    std::uint64_t sent = 0;
    Tick busy = 0;
    bool told = false;
    bool up = true;
  };

  Tick ticks_per_s_;
  std::uint32_t gap_bytes_;
  Events& events_;
  Packets& packets_;
  std::vector<Wire> wires_;
  std::uint64_t on_the_way_ = 0;
};

}  // namespace astra::roce
