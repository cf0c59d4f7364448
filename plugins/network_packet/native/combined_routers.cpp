#include "combined_routers.hpp"

#include <algorithm>

namespace astra::packet {

CombinedRouters::CombinedRouters(const Shape& shape, Clock& clock, CallOrder& calls, Channels& channels, InputBuffers& inputs,
                                 Messages& messages, RouteComputation& routes)
    : shape_(shape),
      clock_(clock),
      calls_(calls),
      channels_(channels),
      inputs_(inputs),
      messages_(messages),
      routes_(routes),
      links_(shape.link) {
  if (shape.rules.allocation != Allocation::combined) return;
  int ports = 0;
  std::size_t inputs_of_one = 0;
  for (const RouterSpec& spec : shape.router) {
    routers_.emplace_back();
    routers_.back().inputs.resize(spec.inputs.size());
    routers_.back().outputs.resize(index(spec.output_ports));
    busy_.append(count_of(spec.inputs));
    ports = std::max(ports, spec.output_ports);
    inputs_of_one = std::max(inputs_of_one, spec.inputs.size());
  }
  for (int c = 0; c < shape.channels(); ++c) occupied_.append(shape.vc_count(c));
  requests_.reserve(inputs_of_one);
  best_.assign(index(ports), -1);
}

void CombinedRouters::run(int r, Cycle now) {
  const RouterSpec& spec = at(shape_->router, r);
  Router& router = at(routers_, r);
  requests_.clear();
  const Cycle arrived_by = now - clock_->cycles_of(r, shape_->rules.router_latency - 1);
  busy_.each(r, [&](int input) {
    const int in = at(spec.inputs, input);
    find_candidates(in, arrived_by);
    if (candidates_.empty()) return;
    const int vc = choose_vc(in, at(router.inputs, input), now);
    if (vc < 0) return;
    const int port = inputs_->vc(in, vc).out_port;
    int distance = at(links_, in).sink_port - at(router.outputs, port).pointer;
    if (distance < 0) distance += spec.input_ports;
    requests_.push_back({port, in, vc, distance});
  });
  if (requests_.empty()) return;
  for (int i = 0; i < count_of(requests_); ++i) {
    const Request& request = at(requests_, i);
    int& best = at(best_, request.output);
    if (best >= 0) {
      at(router.outputs, request.output).chose_at = now;
      for (int input : {request.input, at(requests_, best).input}) {
        if (at(links_, input).sink_port_varies) throw UnlikeChoice{at(links_, input).dimension};
      }
    }
    if (best < 0 || request.distance < at(requests_, best).distance) best = i;
  }
  for (const Request& request : requests_) {
    int& best = at(best_, request.output);
    if (best < 0) continue;
    const Request won = at(requests_, best);
    best = -1;
    int& pointer = at(router.outputs, won.output).pointer;
    pointer = pointer + 1 == spec.input_ports ? 0 : pointer + 1;
    InputVc& vc = inputs_->vc(won.input, won.vc);
    if (vc.out_vc < 0) {
      vc.out_vc = narrow<std::int16_t>(idle_vc(won.input, vc));
      channels_->give_vc(vc.out, vc.out_vc);
    }
    cross(won.input, won.vc, now);
  }
  clock_->wake(r, now + 1);
}

void CombinedRouters::receive(int c, const Flit& flit, Cycle now) {
  const int r = at(links_, c).sink;
  const int latency = shape_->rules.router_latency;
  InputVc& vc = inputs_->vc(c, flit.vc);
  if (flit.head) {
    vc.state = VcState::active;
    vc.since = now;
    routes_->set_route(r, c, vc, messages_->packet(flit.packet));
  }
  if (calls_->matters()) {
    calls_->call(r, c, now);
    calls_->settle(r, now);
    if (latency > 2) calls_->enter_pipeline(r, now + latency - 1);
  }
  inputs_->push(c, flit);
  set_bit(occupied_[c], flit.vc);
  set_bit(busy_[r], at(links_, c).sink_place);
  clock_->wake(r, now + clock_->cycles_of(r, latency - 1));
}

void CombinedRouters::cross(int c, int number, Cycle now) {
  inputs_->forward(c, number, now);
  if (!inputs_->vc(c, number).buffer.empty()) return;
  clear_bit(occupied_[c], number);
  if (!occupied_.any(c)) clear_bit(busy_[at(links_, c).sink], at(links_, c).sink_place);
}

void CombinedRouters::find_candidates(int c, Cycle arrived_by) {
  candidates_.clear();
  const InputVc* const vcs = &inputs_->vc(c, 0);
  occupied_.each(c, [&](int number) {
    const InputVc& vc = vcs[number];
    auto same_way = [&](const Candidate& other) { return other.way == vc.way && other.first_vc == vc.first_vc; };
    const auto other = std::find_if(candidates_.begin(), candidates_.end(), same_way);
    if (other != candidates_.end() && other->since <= vc.since) return;
    if (vc.buffer.front().time > arrived_by) return;
    const Candidate found{vc.way, vc.out, vc.first_vc, number, vc.since};
    other != candidates_.end() ? * other = found : candidates_.emplace_back(found);
  });
}

int CombinedRouters::choose_vc(int c, Arbiter& arbiter, Cycle now) {
  const Rules& rules = shape_->rules;
  const int all = rules.vnets * rules.vcs;
  int chosen = -1;
  int nearest = all;
  int choices = 0;
  for (const Candidate& candidate : candidates_) {
    channels_->take_credits(candidate.out, now);
    const InputVc& vc = inputs_->vc(c, candidate.vc);
    const bool allowed = vc.out_vc < 0 ? idle_vc(c, vc) >= 0 : channels_->credits(vc.out, vc.out_vc) > 0;
    if (!allowed) {
      channels_->wait_for_credit(vc.out);
      continue;
    }
    ++choices;
    int distance = at(links_, c).first_vnet * rules.vcs + candidate.vc - arbiter.pointer;
    if (distance < 0) distance += all;
    if (distance < nearest) {
      nearest = distance;
      chosen = candidate.vc;
    }
  }
  if (choices > 1) arbiter.chose_at = now;
  if (chosen >= 0) arbiter.pointer = arbiter.pointer + 1 == all ? 0 : arbiter.pointer + 1;
  return chosen;
}

int CombinedRouters::idle_vc(int in, const InputVc& vc) const {
  const Link& out = at(links_, vc.out);
  const std::uint64_t* const idle = channels_->idle(vc.out);
  const int lowest = next_bit(idle, vc.first_vc, vc.end_vc);
  // With bubbles, who enters a ring leaves one buffer in it free.
  const bool enters = shape_->rules.bubble && out.ring && at(links_, in).dimension != out.dimension;
  return enters && lowest >= 0 && next_bit(idle, lowest + 1, vc.end_vc) < 0 ? -1 : lowest;
}

// Calls visit(router, arbiter, whether it is an input's), always in the same order.
template <class Routers, class Visit>
void CombinedRouters::each_arbiter(Routers& routers, Visit visit) {
  for (std::size_t r = 0; r < routers.size(); ++r) {
    for (auto& arbiter : routers[r].inputs) visit(r, arbiter, true);
    for (auto& arbiter : routers[r].outputs) visit(r, arbiter, false);
  }
}

std::vector<int> CombinedRouters::pointers() const {
  std::vector<int> found;
  each_arbiter(routers_, [&](std::size_t, const Arbiter& arbiter, bool) { found.push_back(arbiter.pointer); });
  return found;
}

bool CombinedRouters::same_choices(const std::vector<int>& before, Cycle since) const {
  auto next = before.begin();
  bool same = true;
  each_arbiter(routers_, [&](std::size_t, const Arbiter& arbiter, bool) {
    const int pointer = *next++;
    same = same && (arbiter.chose_at <= since || arbiter.pointer == pointer);
  });
  return same;
}

bool CombinedRouters::chose(int c, Cycle since) const {
  const Link& link = at(links_, c);
  return at(at(routers_, link.sink).inputs, link.sink_place).chose_at > since;
}

void CombinedRouters::repeat(const std::vector<int>& before, std::int64_t count) {
  const int vcs = shape_->rules.vnets * shape_->rules.vcs;
  auto next = before.begin();
  each_arbiter(routers_, [&](std::size_t r, Arbiter& arbiter, bool of_input) {
    const int range = of_input ? vcs : shape_->router[r].input_ports;
    const std::int64_t step = (arbiter.pointer - *next++ + range) % range;
    arbiter.pointer = narrow<int>((arbiter.pointer + step * (count % range)) % range);
  });
}

void CombinedRouters::turn(int c, const VcTurn& turn) {
  if (routers_.empty()) return;
  for (int number = 0; number < turn.count; ++number) {
    (inputs_->vc(c, number).buffer.empty() ? clear_bit : set_bit)(occupied_[c], number);
  }
}

}  // namespace astra::packet
