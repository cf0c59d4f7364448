// DCQCN (Zhu et al., SIGCOMM 2015), as network interfaces of Mellanox have it: timers, and no byte counter.
#pragma once

#include <algorithm>
#include <vector>

#include "congestion.hpp"

namespace astra::roce {

class Dcqcn final : public Congestion {
 public:
  using Congestion::Congestion;

  void begin(FlowId flow) override { of(states_, flow) = {}; }

  // A marked acknowledgement is a congestion notification.
  void acknowledged(FlowId id, PacketId ack) override {
    if (!tools_.packets[ack].marked) return;
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    state.decrease = true;
    if (state.begun) {
      state.notified = true;
      return;
    }
    state = {.alpha = 1, .target = tools_.flows[id].rate, .begun = true, .decrease = true};
    ring(id, EventKind::alpha, settings.alpha_interval);
    ring(id, EventKind::decrease, settings.decrease_interval + settings.tick_after_decrease);
  }

  void timer(FlowId id, EventKind what) override {
    if (what == EventKind::alpha) return update_alpha(id);
    if (what == EventKind::decrease) return decrease(id);
    increase(id);
  }

 private:
  struct State {
    double alpha = 1;
    std::int64_t target = 0;
    std::uint32_t stage = 0;
    bool begun = false;
    bool notified = false;       // since the last update of alpha
    bool decrease = false;       // a notification since the last decrease
    std::uint64_t increase = 0;  // the event of the next increase: an earlier one has no effect
  };

  void update_alpha(FlowId id) {
    State& state = states_[id];
    const double gain = tools_.settings.gain;
    state.alpha = (1 - gain) * state.alpha + gain * (state.notified ? 1 : 0);
    state.notified = false;
    ring(id, EventKind::alpha, tools_.settings.alpha_interval);
  }

  void decrease(FlowId id) {
    const Settings& settings = tools_.settings;
    State& state = states_[id];
    ring(id, EventKind::decrease, settings.decrease_interval);
    if (!state.decrease) return;
    Flow& flow = tools_.flows[id];
    if (settings.clamp_target || state.stage > 0) state.target = flow.rate;
    flow.rate = std::max(settings.least_rate, whole(real(flow.rate) * (1 - state.alpha / 2)));
    state.stage = 0;
    state.decrease = false;
    ring_increase(id);
  }

  void increase(FlowId id) {
    State& state = states_[id];
    if (tools_.events.current() != state.increase) return;
    const Settings& settings = tools_.settings;
    Flow& flow = tools_.flows[id];
    ring_increase(id);
    if (state.stage >= settings.fast_recovery) {
      state.target += state.stage == settings.fast_recovery ? settings.rate_step : settings.large_rate_step;
      state.target = std::min(state.target, flow.line_rate);
    }
    flow.rate = flow.rate / 2 + state.target / 2;
    ++state.stage;
  }

  void ring_increase(FlowId id) {
    ring(id, EventKind::increase, tools_.settings.increase_interval);
    states_[id].increase = tools_.events.last_order();
  }

  std::vector<State> states_;
};

}  // namespace astra::roce
