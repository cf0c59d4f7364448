// HPCC-PINT (Ben Basat et al., SIGCOMM 2020): HPCC's rule with the utilisation of the busiest link, which a packet carries as a power.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "hpcc.hpp"
#include "telemetry.hpp"

namespace astra::roce {

class Pint final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId id) override {
    State& state = of(states_, id) = {};
    state.rate.rate = tools_.flows[id].line_rate;
  }

  void acknowledged(FlowId id, PacketId ack) override {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    const Flow& flow = tools_.flows[id];
    const Packet& packet = tools_.packets[ack];
    if (settings.pint_share < 1 && tools_.random.share() >= settings.pint_share) return;
    if (state.round == 0) {
      state.round = flow.next_byte;
      return;
    }
    const bool full = packet.sequence > state.round;
    if (!full && !settings.fast_reaction) return;
    state.rate.u = std::pow(settings.pint_base, tools_.packets.measured(ack).power) / Telemetry::kPintScale;
    const HpccRate next = next_rate(tools_, flow, state.rate);
    tools_.nics.change_rate(id, next.rate);
    if (full) {
      state.rate = next;
      state.round = std::max(state.round, flow.next_byte);
    }
  }

 private:
  struct State {
    std::int64_t round = 0;
    HpccRate rate{};
  };

  std::vector<State> states_;
};

}  // namespace astra::roce
