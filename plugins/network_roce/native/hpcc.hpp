// HPCC (Li et al., SIGCOMM 2019): rates follow the utilisation of links, which switches write into packets (INT).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "congestion.hpp"
#include "nics.hpp"

namespace astra::roce {

// The rule that HPCC and HPCC-PINT share: a rate and a stage, of a utilisation `u`.
struct HpccRate {
  double u = 1;
  std::int64_t rate = 0;
  std::uint32_t stage = 0;
};

inline HpccRate next_rate(const Tools& tools, const Flow& flow, const HpccRate& last) {
  const Settings& settings = tools.settings;
  const double excess = last.u / settings.target_utilisation;
  HpccRate next = last;
  if (excess >= 1 || last.stage >= settings.stages) {
    next.rate = whole(real(last.rate) / excess) + settings.rate_step;
    next.stage = 0;
  } else {
    next.rate = last.rate + settings.rate_step;
    next.stage = last.stage + 1;
  }
  next.rate = tools.limited(next.rate, flow);
  return next;
}

class Hpcc final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId id) override {
    State& state = of(states_, id) = {};
    state.whole.rate = tools_.flows[id].line_rate;
    for (HpccRate& hop : state.hops) hop.rate = tools_.flows[id].line_rate;
  }

  void acknowledged(FlowId id, PacketId ack) override {
    State& state = states_[id];
    const Flow& flow = tools_.flows[id];
    const Packet& packet = tools_.packets[ack];
    const Hops& seen = tools_.packets.hops(ack);
    if (state.round == 0) {
      state.round = flow.next_byte;
      std::copy_n(seen.begin(), packet.hops, state.last_hops.begin());
      return;
    }
    const bool full = packet.sequence > state.round;
    if (!full && !tools_.settings.fast_reaction) return;
    update(id, packet, seen, full);
    if (full && flow.next_byte > state.round) state.round = flow.next_byte;
  }

 private:
  struct State {
    std::int64_t round = 0;  // the byte that was next when the last full update was made
    HpccRate whole{};
    std::array<HpccRate, kMostHops> hops{};
    Hops last_hops{};
  };

  void update(FlowId id, const Packet& packet, const Hops& seen, bool full) {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    const Flow& flow = tools_.flows[id];
    const double trip = real(flow.round_trip_ns);
    double highest = 0;
    double highest_time = 0;
    bool any = false;
    std::array<bool, kMostHops> counts{};
    for (std::uint32_t number = 0; number < packet.hops; ++number) {
      const Hop& now = seen[number];
      if (settings.sampled_feedback && now.queue == 0 && !full) continue;
      const Hop before = state.last_hops[number];
      state.last_hops[number] = now;
      counts[number] = any = true;
      const double time = real((now.time - before.time) & 0xffffff);
      const double u = utilisation(flow, now, before, time);
      if (settings.rate_of_hop) {
        state.hops[number].u = smoothed(state.hops[number].u, u, std::min(time, trip), trip);
      } else if (u > highest) {
        highest = u;
        highest_time = time;
      }
    }
    if (!any) return;
    if (settings.rate_of_hop) return set_of_hops(id, packet.hops, counts, full);
    state.whole.u = smoothed(state.whole.u, highest, std::min(highest_time, trip), trip);
    const HpccRate next = next_rate(tools_, flow, state.whole);
    tools_.nics.change_rate(id, next.rate);
    if (full) {
      state.whole.rate = next.rate;
      state.whole.stage = next.stage;
    }
  }

  void set_of_hops(FlowId id, std::uint32_t hops, const std::array<bool, kMostHops>& counts, bool full) {
    State& state = states_[id];
    std::int64_t lowest = tools_.flows[id].line_rate;
    for (std::uint32_t number = 0; number < hops; ++number) {
      if (!counts[number]) {
        lowest = std::min(lowest, state.hops[number].rate);
        continue;
      }
      const HpccRate next = next_rate(tools_, tools_.flows[id], state.hops[number]);
      lowest = std::min(lowest, next.rate);
      if (full) state.hops[number] = next;
    }
    tools_.nics.change_rate(id, lowest);
  }

  double utilisation(const Flow& flow, const Hop& now, const Hop& before, double time) const {
    const double unit = tools_.settings.telemetry_unit;
    const double bytes = real((now.bytes - before.bytes) & 0xfffff) * 128 * unit;
    const double queue = real(std::min(now.queue, before.queue)) * 80 * unit;
    const double sent = bytes * 8 / (time * 1e-9);
    const bool as_it_is = flow.window > 0 || tools_.settings.divides_by_window;
    const double window = as_it_is ? real(flow.window) : real(flow.line_rate) * real(flow.round_trip_ns) / 8e9;
    return sent / real(now.rate) + queue * real(flow.line_rate) / real(now.rate) / window;
  }

  static double smoothed(double u, double fresh, double time, double trip) { return (u * (trip - time) + fresh * time) / trip; }

  std::vector<State> states_;
};

}  // namespace astra::roce
