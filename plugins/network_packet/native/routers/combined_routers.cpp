#include "routers/combined_routers.hpp"

#include <algorithm>
#include <utility>

namespace astra::packet {

CombinedRouters::CombinedRouters(const Shape& shape, Clock& clock, GarnetEventOrder& calls, CreditChannels& credits, InputBuffers& inputs,
                                 Packets& packets, RouteComputation& routes)
    : shape_(shape),
      clock_(clock),
      calls_(calls),
      credits_(credits),
      inputs_(inputs),
      packets_(packets),
      routes_(routes),
      links_(shape.link),
      scratch_(1) {
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
  scratch_.front().requests.reserve(inputs_of_one);
  scratch_.front().best.assign(index(ports), -1);
  scratch_.front().taken.assign(index(ports), false);
}

void CombinedRouters::run(int r, Cycle now, int thread) {
  const RouterSpec& spec = at(shape_->router, r);
  Router& router = at(routers_, r);
  Scratch& scratch = at(scratch_, thread);
  scratch.requests.clear();
  const int latency = shape_->rules.router_latency;
  bool accepted = false;
  inputs_->take_arrivals(r, now, [&](int, InputVc& vc) {
    accept(vc, now);
    accepted = true;
  });
  if (accepted && latency > 1) clock_->wake(r, now + latency - 1);
  const Cycle arrived_by = now - clock_->cycles_of(r, latency - 1);
  busy_.each(r, [&](int input) {
    const int in = at(spec.inputs, input);
    InputVc* const vc = choose_vc(in, at(router.inputs, input), scratch.candidates, arrived_by, now);
    if (vc != nullptr) request(router, scratch, spec.input_ports, in, *vc);
  });
  if (scratch.requests.empty()) return;
  if (arbitrate(router, scratch, spec.input_ports, now)) match_losers(router, scratch, spec.input_ports, arrived_by, now);
  clock_->wake(r, now + 1);
}

[[gnu::always_inline]] inline void CombinedRouters::request(const Router& router, Scratch& scratch, int input_ports, int in, InputVc& vc) {
  const Link& link = at(links_, in);
  int distance = link.sink_port - at(router.outputs, vc.out_port).pointer;
  if (distance < 0) distance += input_ports;
  if (link.dimension < 0 && shape_->rules.transit_first()) distance += input_ports;
  scratch.requests.push_back({&vc, vc.out_port, distance});
}

[[gnu::noinline]] void CombinedRouters::match_losers(Router& router, Scratch& scratch, int input_ports, Cycle arrived_by, Cycle now) {
  do {
    std::swap(scratch.asking, scratch.losers);
    scratch.losers.clear();
    scratch.requests.clear();
    for (int in : scratch.asking) {
      if (occupied_.only(in) >= 0) continue;
      find_candidates(in, scratch.candidates, arrived_by);
      std::erase_if(scratch.candidates, [&](const Candidate& c) { return at(scratch.taken, inputs_->vc(in, c.vc).out_port); });
      const int chosen = choose_candidate(in, at(router.inputs, at(links_, in).sink_place), scratch.candidates, now);
      if (chosen >= 0) request(router, scratch, input_ports, in, inputs_->vc(in, chosen));
    }
  } while (arbitrate(router, scratch, input_ports, now));
  std::fill(scratch.taken.begin(), scratch.taken.end(), false);
}

[[gnu::always_inline]] inline bool CombinedRouters::arbitrate(Router& router, Scratch& scratch, int input_ports, Cycle now) {
  const std::vector<Request>& requests = scratch.requests;
  bool any_lose = false;
  for (int i = 0; i < count_of(requests); ++i) {
    const Request& request = at(requests, i);
    int& best = at(scratch.best, request.output);
    if (best >= 0) {
      any_lose = shape_->rules.maximal();
      at(router.outputs, request.output).chose_at = now;
      for (const InputVc* vc : {request.vc, at(requests, best).vc}) {
        const Link& input = at(links_, vc->channel);
        if (input.sink_port_varies) throw UnlikeChoice{input.dimension};
      }
    }
    if (best < 0 || request.distance < at(requests, best).distance) best = i;
  }
  for (int i = 0; any_lose && i < count_of(requests); ++i) {
    const Request& request = at(requests, i);
    at(scratch.taken, request.output) = true;
    if (at(scratch.best, request.output) != i) scratch.losers.push_back(request.vc->channel);
  }
  for (const Request& request : requests) {
    int& best = at(scratch.best, request.output);
    if (best < 0) continue;
    InputVc& vc = *at(requests, best).vc;
    best = -1;
    int& pointer = at(router.outputs, request.output).pointer;
    pointer = pointer + 1 == input_ports ? 0 : pointer + 1;
    if (vc.out_vc < 0) {
      vc.out_vc = narrow<std::int16_t>(idle_vc(vc.channel, vc));
      credits_->give_vc(vc.out, vc.out_vc);
    }
    cross(vc, now);
  }
  return any_lose;
}

void CombinedRouters::receive(int c, const Flit& flit, Cycle now) {
  if (inputs_->take_queued(c, flit, now)) return;
  accept(inputs_->vc(c, flit.vc), now);
  const int r = at(links_, c).sink;
  clock_->wake(r, now + clock_->cycles_of(r, shape_->rules.router_latency - 1));
}

[[gnu::always_inline]] inline void CombinedRouters::accept(InputVc& vc, Cycle now) {
  const int c = vc.channel;
  const int r = at(links_, c).sink;
  const int latency = shape_->rules.router_latency;
  const Flit& flit = vc.buffer[narrow<std::uint32_t>(vc.arrived++)];
  if (flit.head) {
    vc.state = VcState::active;
    vc.since = now;
    routes_->set_route(r, c, vc, (*packets_)[flit.packet], now);
  }
  if (calls_->matters()) {
    calls_->call(r, c, now);
    calls_->settle(r, now);
    if (latency > 2) calls_->enter_pipeline(r, now + latency - 1);
  }
  set_bit(occupied_[c], vc.number);
  set_bit(busy_[r], at(links_, c).sink_place);
}

[[gnu::always_inline]] inline void CombinedRouters::cross(InputVc& vc, Cycle now) {
  inputs_->forward(vc, now, clock_->cycles_of(at(links_, vc.channel).sink, 1));
  if (vc.arrived > 0) return;
  const Link& in = at(links_, vc.channel);
  clear_bit(occupied_[vc.channel], vc.number);
  if (!occupied_.any(vc.channel)) clear_bit(busy_[in.sink], in.sink_place);
}

[[gnu::always_inline]] inline bool CombinedRouters::may_go(int c, const InputVc& vc, Cycle now) {
  if (vc.out_vc < 0) credits_->take(vc.out, now);
  if (vc.out_vc < 0 ? idle_vc(c, vc) >= 0 : credits_->has_credits(vc.out, vc.out_vc, 1, now)) return true;
  credits_->wait_for_credit(vc.out, now);
  return false;
}

[[gnu::always_inline]] inline InputVc* CombinedRouters::choose_vc(int c, Arbiter& arbiter, std::vector<Candidate>& candidates,
                                                                  Cycle arrived_by, Cycle now) {
  InputVc* const vcs = inputs_->of_channel(c);
  int chosen = occupied_.only(c);
  if (chosen < 0) {
    find_candidates(c, candidates, arrived_by);
    chosen = choose_candidate(c, arbiter, candidates, now);
  } else if (vcs[chosen].buffer.front().time > arrived_by || !may_go(c, vcs[chosen], now)) {
    return nullptr;
  }
  if (chosen < 0) return nullptr;
  const int all = shape_->rules.vnets * shape_->rules.vcs;
  arbiter.pointer = arbiter.pointer + 1 == all ? 0 : arbiter.pointer + 1;
  return &vcs[chosen];
}

void CombinedRouters::find_candidates(int c, std::vector<Candidate>& candidates, Cycle arrived_by) {
  candidates.clear();
  const InputVc* const vcs = inputs_->of_channel(c);
  occupied_.each(c, [&](int number) {
    const InputVc& vc = vcs[number];
    auto same_way = [&](const Candidate& other) { return other.way == vc.way && other.first_vc == vc.first_vc; };
    const auto other = std::find_if(candidates.begin(), candidates.end(), same_way);
    if (other != candidates.end() && other->since <= vc.since) return;
    if (vc.buffer.front().time > arrived_by) return;
    const Candidate result{vc.way, vc.first_vc, number, vc.since};
    other != candidates.end() ? * other = result : candidates.emplace_back(result);
  });
}

int CombinedRouters::choose_candidate(int c, Arbiter& arbiter, const std::vector<Candidate>& candidates, Cycle now) {
  const Rules& rules = shape_->rules;
  const int all = rules.vnets * rules.vcs;
  int chosen = -1;
  int nearest = all;
  int choices = 0;
  for (const Candidate& candidate : candidates) {
    if (!may_go(c, inputs_->vc(c, candidate.vc), now)) continue;
    ++choices;
    int distance = at(links_, c).first_vnet * rules.vcs + candidate.vc - arbiter.pointer;
    if (distance < 0) distance += all;
    if (distance < nearest) {
      nearest = distance;
      chosen = candidate.vc;
    }
  }
  if (choices > 1) arbiter.chose_at = now;
  return chosen;
}

[[gnu::always_inline]] inline int CombinedRouters::idle_vc(int in, const InputVc& vc) const {
  const Link& out = at(links_, vc.out);
  const std::uint64_t* const idle = credits_->idle(vc.out);
  const int lowest = next_bit(idle, vc.first_vc, vc.end_vc);
  // With bubbles, who enters a ring leaves one buffer in it free.
  const bool enters = shape_->rules.bubble() && out.ring && at(links_, in).dimension != out.dimension;
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
  std::vector<int> result;
  each_arbiter(routers_, [&](std::size_t, const Arbiter& arbiter, bool) { result.push_back(arbiter.pointer); });
  return result;
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
    (inputs_->vc(c, number).arrived == 0 ? clear_bit : set_bit)(occupied_[c], number);
  }
}

}  // namespace astra::packet
