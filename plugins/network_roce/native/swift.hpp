// Swift (Kumar et al., SIGCOMM 2020): a window of packets that follows the delay of the fabric against a target. Below one packet it
// becomes a pace. The target grows with hops, and with the inverse square root of the window.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "congestion.hpp"
#include "nics.hpp"

namespace astra::roce {

class Swift final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId id) override {
    State& state = of(states_, id) = {};
    const Flow& flow = tools_.flows[id];
    const double product = real(flow.line_rate) * real(flow.round_trip_ns) / 8e9;
    state.window = std::clamp(product / tools_.settings.payload_bytes, 1.0, tools_.settings.swift_largest_window);
    apply(id, flow.round_trip_ns * tools_.settings.ticks_per_ns);
  }

  void acknowledged(FlowId id, PacketId ack) override {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    const Packet& packet = tools_.packets[ack];
    const Tick now = tools_.events.now();
    const Tick delay = now - tools_.packets.measured(ack).stamp;
    const double goal = target(state.window, packet.hops);
    if (real(delay) < goal) {
      state.window += settings.swift_increase / std::max(1.0, state.window);
    } else if (now - state.decreased >= state.trip) {
      const double factor = 1 - settings.swift_decrease * (real(delay) - goal) / real(delay);
      state.window *= std::max(factor, 1 - settings.swift_largest_decrease);
      state.decreased = now;
    }
    state.trip = delay;
    state.window = std::clamp(state.window, settings.swift_smallest_window, settings.swift_largest_window);
    apply(id, delay);
  }

 private:
  struct State {
    double window = 1;  // packets
    Tick trip = 0;      // the last round-trip time
    Tick decreased = -1;
  };

  // Ticks of delay that are right: of the base, of each hop, and more for small windows (section 3.1 of the paper).
  double target(double window, std::uint32_t hops) const {
    const Settings& settings = tools_.settings;
    const double low = 1 / std::sqrt(settings.swift_largest_window);
    const double high = 1 / std::sqrt(settings.swift_smallest_window);
    const double share = std::clamp((1 / std::sqrt(window) - low) / (high - low), 0.0, 1.0);
    return real(settings.swift_base) + hops * real(settings.swift_hop) + share * real(settings.swift_range);
  }

  void apply(FlowId id, Tick trip) {
    Flow& flow = tools_.flows[id];
    const double packets = states_[id].window;
    const double payload = tools_.settings.payload_bytes;
    flow.window = std::max<std::int64_t>(1, whole(std::max(1.0, packets) * payload));
    const double seconds = real(trip) / (1e9 * real(tools_.settings.ticks_per_ns));
    tools_.nics.change_rate(id, packets >= 1 ? flow.line_rate : tools_.limited(whole(packets * payload * 8 / seconds), flow));
  }

  std::vector<State> states_;
};

}  // namespace astra::roce
