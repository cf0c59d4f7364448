// Measurements of switches at a port when a packet of data leaves: a record for each hop (INT of HPCC), or one utilisation (PINT).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "events.hpp"
#include "output_queues.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"
#include "wires.hpp"

namespace astra::roce {

class Telemetry {
 public:
  Telemetry(const Settings& settings, const Plan& plan, Events& events, Packets& packets, const OutputQueues& queues, const Wires& wires,
            Random& random)
      : settings_(settings), events_(events), packets_(packets), queues_(queues), wires_(wires), random_(random) {
    if (settings.algorithm == Algorithm::pint) ports_.resize(plan.links.size());
  }

  // Called for every packet that is about to be sent by a port of a switch, after it was taken out of its queue.
  void write(LinkId port, PacketId id) {
    if (settings_.algorithm == Algorithm::hpcc) {
      write_hop(port, id);
    } else if (settings_.algorithm == Algorithm::swift) {
      packets_[id].hops += packets_[id].kind == Kind::data ? 1 : 0;
    } else if (settings_.algorithm == Algorithm::pint) {
      write_power(port, id);
    }
  }

 private:
  struct Port {
    double u = 0;
    Tick last_time = 0;
    std::uint32_t last_bytes = 0;
  };

  void write_hop(LinkId port, PacketId id) {
    Packet& packet = packets_[id];
    if (packet.kind != Kind::data || packet.hops == kMostHops) return;
    const std::int64_t unit = settings_.telemetry_unit;
    Hop& hop = packets_.hops(id)[packet.hops++];
    hop.time = static_cast<std::uint32_t>(nanoseconds() & 0xffffff);
    hop.bytes = static_cast<std::uint32_t>(static_cast<std::int64_t>(wires_.bytes_sent(port)) / (128 * unit) & 0xfffff);
    hop.queue = static_cast<std::uint32_t>(queues_.bytes(port) / (80 * unit) & 0x1ffff);
    hop.rate = wires_.rate(port);
  }

  void write_power(LinkId port, PacketId id) {
    Packet& packet = packets_[id];
    Port& at = ports_[port];
    if (packet.kind == Kind::data) {
      const double trip = real(static_cast<std::int64_t>(settings_.pint_rtt_ns));
      const double bytes_per_s = real(wires_.rate(port)) / 8;
      const double passed = real(events_.now() - at.last_time) / real(settings_.ticks_per_ns);
      const double queue = real(queues_.bytes(port)) * passed / (bytes_per_s * trip) * 1e9;
      at.u = (std::max(0.0, trip - passed) * at.u + queue + at.last_bytes * 1e9 / bytes_per_s) / trip;
      const double scaled = std::ceil(std::max(at.u * kPintScale, 1.0));
      const double power = std::log(scaled) / std::log(settings_.pint_base);
      const auto rounded = static_cast<std::uint16_t>(std::floor(power) + (random_.share() < power - std::floor(power) ? 1 : 0));
      std::uint16_t& highest = packets_.measured(id).power;
      highest = std::max(highest, rounded);
    }
    at.last_time = events_.now();
    at.last_bytes = packet.bytes;
  }

  std::int64_t nanoseconds() const { return events_.now() / settings_.ticks_per_ns; }

  const Settings& settings_;
  Events& events_;
  Packets& packets_;
  const OutputQueues& queues_;
  const Wires& wires_;
  Random& random_;
  std::vector<Port> ports_;  // PINT: of each port

 public:
  static constexpr double kPintScale = 512;  // utilisations are counted in units of 1 / 512
};

}  // namespace astra::roce
