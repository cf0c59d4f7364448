// TIMELY (Mittal et al., SIGCOMM 2015): rates follow the gradient of round-trip times, once a round.
#pragma once

#include <algorithm>
#include <vector>

#include "congestion.hpp"
#include "nics.hpp"

namespace astra::roce {

class Timely final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId id) override { of(states_, id) = {}; }

  void acknowledged(FlowId id, PacketId ack) override {
    State& state = states_[id];
    const Flow& flow = tools_.flows[id];
    const Packet& packet = tools_.packets[ack];
    const Tick trip = tools_.events.now() - tools_.packets.measured(ack).stamp;
    if (state.round == 0) {
      state.round = flow.next_byte;
      state.trip = trip;
      return;
    }
    if (packet.sequence <= state.round) return;
    update(id, trip);
    state.round = std::max(state.round, flow.next_byte);
  }

 private:
  static constexpr std::uint32_t kSmallSteps = 5;

  struct State {
    std::int64_t round = 0;
    Tick trip = 0;  // the last round-trip time
    double change = 0;
    std::uint32_t increases = 0;  // in a row
  };

  void update(FlowId id, Tick trip) {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    state.change = (1 - settings.timely_weight) * state.change + settings.timely_weight * real(trip - state.trip);
    const double gradient = state.change / real(settings.timely_round);
    state.trip = trip;
    if (trip < settings.timely_low) return increase(id);
    if (trip > settings.timely_high) return decrease(id, settings.timely_decrease * (1 - real(settings.timely_high) / real(trip)));
    if (gradient <= 0) return increase(id);
    decrease(id, settings.timely_decrease * gradient);
  }

  void increase(FlowId id) {
    Flow& flow = tools_.flows[id];
    State& state = states_[id];
    const Settings& settings = tools_.settings;
    flow.rate = tools_.limited(flow.rate + (state.increases < kSmallSteps ? settings.rate_step : settings.large_rate_step), flow);
    ++state.increases;
  }

  void decrease(FlowId id, double share) {
    Flow& flow = tools_.flows[id];
    states_[id].increases = 0;
    flow.rate = tools_.limited(whole(real(flow.rate) * std::max(0.0, 1 - share)), flow);
  }

  std::vector<State> states_;
};

}  // namespace astra::roce
