#include "replay/steady_state.hpp"

namespace astra::packet {

namespace {

constexpr std::int64_t kWorthwhile = 8;  // packets a message must still have to make

}  // namespace

void SteadyState::forget() {
  anchor_ = -1;
  taken_at_ = -1;
  reach_ = 4;
  seen_ = wait_ = 0;
}

bool SteadyState::snapshot(Parts& parts, bool compares, Cycle now) {
  Snapshot snapshot(snapshot_, parts.interfaces.vc_rotations(), compares, now);
  snapshot.put(now % parts.shape->dividers.rhythm);  // routers with clocks of their own must be at the same places between their edges
  parts.flit_channels.snapshot(snapshot, parts.messages);
  parts.credits.snapshot(snapshot);
  parts.inputs.snapshot(snapshot, parts.messages);
  if (!snapshot.same()) return false;
  parts.interfaces.snapshot(snapshot);
  parts.messages.snapshot(snapshot);
  parts.routes.snapshot(snapshot);
  parts.staged.snapshot(snapshot);
  for (int r = 0; parts.calls.matters() && r < parts.shape->routers(); ++r) {
    if (!parts.combined.has_flits(r)) continue;  // it will be called before it acts
    snapshot.put(r);
    parts.calls.snapshot(snapshot, r);
  }
  return snapshot.complete();
}

namespace {

std::vector<int> injection_port_pointers(const Parts& parts) {
  std::vector<int> result(parts.shape->injection_port.size());
  for (std::size_t l = 0; l < result.size(); ++l) result[l] = parts.interfaces.pointer(static_cast<int>(l));
  return result;
}

}  // namespace

std::vector<std::int64_t> SteadyState::signature(Parts& parts, Cycle now) {
  SteadyState state;
  state.snapshot(parts, false, now);
  std::vector<std::int64_t> result = std::move(state.snapshot_);
  for (int pointer : injection_port_pointers(parts)) result.push_back(pointer);
  for (int pointer : parts.combined.pointers()) result.push_back(pointer);
  return result;
}

bool SteadyState::same_pointers(const Parts& parts) const {
  if (!parts.combined.same_choices(pointers_, taken_at_)) return false;
  const std::vector<int> pointers = injection_port_pointers(parts);
  for (std::size_t l = 0; l < pointers.size(); ++l) {
    if (pointers[l] != injection_port_pointers_[l] && parts.combined.chose(parts.shape->injection_port[l].out, taken_at_)) return false;
  }
  return true;
}

bool SteadyState::plan(const Parts& parts, Cycle now) {
  periods = parts.messages.repetitions(unmade_);
  period = now - taken_at_;
  return periods > 0;
}

void SteadyState::start(Parts& parts, Cycle now) {
  snapshot(parts, false, now);
  counters_ = parts.statistics.counters;
  unmade_ = parts.messages.unmade();
  injection_port_pointers_ = injection_port_pointers(parts);
  pointers_ = parts.combined.pointers();
  sprayed_ = parts.routes.sprayed();
  packets_ = parts.packets.under_way();
  taken_at_ = now;
  seen_ = 0;
}

bool SteadyState::look(Parts& parts, Cycle now) {
  ++seen_;
  if (--wait_ > 0) return false;
  if (parts.interfaces.unmade(anchor_) < kWorthwhile) {
    forget();
    wait_ = kWorthwhile / 2;
    return false;
  }
  if (taken_at_ >= 0 && parts.packets.under_way() == packets_ && parts.messages.count() == unmade_.size()) {
    if (snapshot(parts, true, now) && same_pointers(parts) && plan(parts, now)) return true;
  }
  if (taken_at_ >= 0 && seen_ < reach_) return false;
  if (taken_at_ >= 0) reach_ *= 2;  // Brent: a newer snapshot, kept for twice as long
  start(parts, now);
  return false;
}

void SteadyState::pass(Parts& parts, std::int64_t count) const {
  if (count == 0) return;
  const Cycle later = count * period;
  parts.statistics.repeat(counters_, count);
  parts.messages.repeat(unmade_, count, later);
  parts.flit_channels.shift(later);
  parts.credits.shift(later);
  parts.inputs.shift(later);
  parts.interfaces.shift(later);
  for (int injection_port = 0; injection_port < parts.shape->injection_ports(); ++injection_port)
    turn_injection_port(parts, injection_port, count);
  parts.combined.repeat(pointers_, count);
  parts.calls.shift(later);
  parts.routes.repeat(sprayed_, count);
  parts.staged.shift(later);
  parts.clock.shift(later);
}

void SteadyState::turn_injection_port(Parts& parts, int injection_port, std::int64_t count) const {
  const int vcs = parts.shape->rules.vcs;
  const std::int64_t step = parts.interfaces.pointer(injection_port) - at(injection_port_pointers_, injection_port) + vcs;
  const int by = narrow<int>(step * (count % vcs) % vcs);
  if (by == 0) return;
  const VcTurn turn{vcs - by, vcs};  // counting from there on adds `by`
  const int c = at(parts.shape->injection_port, injection_port).out;
  parts.flit_channels.turn(c, turn);
  parts.credits.turn(c, turn);
  parts.inputs.turn(c, turn);
  parts.combined.turn(c, turn);
  parts.interfaces.turn(injection_port, turn);
}

}  // namespace astra::packet
