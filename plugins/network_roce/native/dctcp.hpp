// DCTCP (Alizadeh et al., SIGCOMM 2010), with rates instead of windows.
#pragma once

#include <algorithm>
#include <vector>

#include "congestion.hpp"

namespace astra::roce {

class Dctcp final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId id) override { of(states_, id) = {}; }

  void acknowledged(FlowId id, PacketId ack) override {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    Flow& flow = tools_.flows[id];
    const Packet& packet = tools_.packets[ack];
    bool round_ends = false;
    state.marks += packet.marked ? 1 : 0;
    if (packet.sequence > state.round) {
      if (state.round == 0) {
        state.batch = flow.next_byte / settings.payload_bytes + 1;
      } else {
        const double share = std::min(1.0, real(state.marks) / real(state.batch));
        state.alpha = (1 - settings.gain) * state.alpha + settings.gain * share;
        state.marks = 0;
        state.batch = (flow.next_byte - packet.sequence) / settings.payload_bytes + 1;
        round_ends = true;
      }
      state.round = flow.next_byte;
    }
    if (state.recovering && packet.sequence > state.high) state.recovering = false;
    if (!state.recovering && packet.marked) {
      flow.rate = tools_.limited(whole(real(flow.rate) * (1 - state.alpha / 2)), flow);
      state.recovering = true;
      state.high = flow.next_byte;
    }
    if (round_ends && !state.recovering) flow.rate = tools_.limited(flow.rate + settings.dctcp_step, flow);
  }

 private:
  struct State {
    std::int64_t round = 0;
    std::int64_t batch = 0;  // packets of the round
    std::int64_t marks = 0;
    std::int64_t high = 0;
    double alpha = 1;
    bool recovering = false;
  };

  std::vector<State> states_;
};

}  // namespace astra::roce
