#include "routers/staged_routers.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace astra::packet {

StagedRouters::StagedRouters(const Shape& shape, Clock& clock, CreditChannels& credits, InputBuffers& inputs, Packets& packets,
                             RouteComputation& routes)
    : shape_(shape),
      clock_(clock),
      credits_(credits),
      inputs_(inputs),
      packets_(packets),
      routes_(routes),
      rules_(shape.rules),
      links_(shape.link),
      width_(shape.rules.vnets * shape.rules.vcs) {
  if (shape.rules.allocation != Allocation::staged) return;
  employ(1);
  for (int r = 0; r < shape.routers(); ++r) {
    const RouterSpec& spec = at(shape.router, r);
    const int vcs = at(shape.vc_base, r + 1) - at(shape.vc_base, r);
    const int inputs_of_switch = count_of(spec.inputs) * shape.rules.input_speedup;
    routers_.push_back({sets_.size(), index(vcs + 63) / 64, pointers_.size(), vcs, inputs_of_switch, spec.output_ports});
    sets_.resize(sets_.size() + kSets * routers_.back().words);
    pointers_.resize(pointers_.size() + index(3 * inputs_of_switch + 2 * spec.output_ports + vcs + spec.output_ports * width_));
  }
}

void StagedRouters::run(int r, Cycle now, int thread) {
  Scratch& scratch = at(scratch_, thread);
  const Router& router = at(routers_, r);
  if (router.words == 1) {
    run(r, router, std::integral_constant<std::size_t, 1>(), now, scratch);
  } else {
    run(r, router, router.words, now, scratch);
  }
}

void StagedRouters::receive(int c, const Flit& flit, Cycle now) {
  if (inputs_->take_queued(c, flit, now)) return;
  const int r = at(links_, c).sink;
  InputVc& vc = inputs_->vc(c, flit.vc);
  const Cycle acts = accept(r, at(routers_, r), narrow<int>(&vc - inputs_->of_router(r)), vc, now);
  if (acts != kNever) clock_->wake(r, acts);
}

[[gnu::always_inline]] inline Cycle StagedRouters::accept(int r, const Router& router, int local, InputVc& vc, Cycle now) {
  const bool first = vc.arrived++ == 0;
  if (vc.state == VcState::idle) {
    begin_packet(r, router, local, vc, now, now + clock_->cycles_of(r, rules_->routing_delay));
    return vc.since;
  }
  if (vc.state != VcState::active || !first) return kNever;
  set_bit(&at(sets_, router.first_word) + kSwitching * router.words, local);
  return now;
}

[[gnu::always_inline]] inline void StagedRouters::begin_packet(int r, const Router& router, int local, InputVc& vc, Cycle now,
                                                               Cycle since) {
  vc.state = VcState::allocating;
  vc.since = since;
  routes_->set_route(r, vc.channel, vc, (*packets_)[vc.buffer.front().packet], now);
  set_bit(starting(r, router, since), local);
}

template <class Words>
void StagedRouters::run(int number, const Router& router, Words words, Cycle now, Scratch& scratch) {
  int* next = &at(pointers_, router.first_pointer);
  auto row = [&](int count) { return std::exchange(next, next + count); };
  auto pointers = [&](int inputs, int outputs) {
    int* const of_input = row(inputs);
    return Pointers{row(outputs), of_input, inputs, outputs};
  };
  const Pointers of_switch = pointers(router.inputs, router.outputs);
  int* const next_vc = row(router.inputs);
  const Pointers of_vcs = pointers(router.vcs, router.outputs * width_);
  const Pointers speculative = pointers(router.inputs, router.outputs);
  const Running<Words> r{
      number, router, inputs_->of_router(number), &at(sets_, router.first_word), words, of_switch, speculative, of_vcs, next_vc,
      now,    scratch};
  inputs_->take_arrivals(r.number, r.now, [&](int local, InputVc& vc) { accept(r.number, r.router, local, vc, r.now); });
  std::uint64_t* const start = starting(r.number, r.router, r.now);
  std::uint64_t* const allocating = r.set(kAllocating);
  for (std::size_t word = 0; word < r.words; ++word) allocating[word] |= std::exchange(start[word], 0);
  ask_surely(r);  // those that get a virtual channel in this cycle ask in the next, or speculate
  if (rules_->speculative) ask_speculatively(r);
  const bool vcs_given = allocate_vcs(r);
  const bool switched = allocate_switch(r);
  if (vcs_given || switched || starts_in_next_cycle(r)) clock_->wake(r.number, r.now + 1);
}

template <class Words>
[[gnu::always_inline]] inline bool StagedRouters::starts_in_next_cycle(const Running<Words>& r) {
  const std::uint64_t* const start = starting(r.number, r.router, r.now + clock_->cycles_of(r.number, 1));
  std::uint64_t any = 0;
  for (std::size_t word = 0; word < r.words; ++word) any |= start[word];
  return any != 0;
}

template <class Words>
[[gnu::always_inline]] inline bool StagedRouters::allocate_vcs(const Running<Words>& r) {
  std::uint64_t wanted = 0;   // outputs,
  std::uint64_t several = 0;  // and those that several heads want
  r.each(kAllocating, [&](int local) __attribute__((always_inline)) {
    const InputVc& vc = r.vcs[local];
    const std::uint64_t output = 1ULL << (vc.out_port & 63);
    several |= wanted & output;
    wanted |= output;
    if (rules_->waits_for_tail_credit()) credits_->take(vc.out, r.now);
  });
  if (wanted == 0) return false;
  if (several != 0 && shape_->routes.is_collapsed()) {
    std::vector<int> heads;
    r.each(kAllocating, [&](int local) { heads.push_back(local); });
    check_heads(r.vcs, heads);
  }
  bool any = false;
  r.scratch.heads.begin(r.of_vcs);
  r.each(kAllocating, [&](int local) __attribute__((always_inline)) {
    InputVc& vc = r.vcs[local];
    if ((several >> (vc.out_port & 63) & 1) == 0) {
      any |= allocate_alone(r, local, vc);
      return;
    }
    const std::uint64_t* const free = credits_->idle(vc.out);
    int out_vc = next_bit(free, vc.first_vc, vc.end_vc);
    if (out_vc < 0) credits_->wait_for_credit(vc.out, r.now);
    for (; out_vc >= 0; out_vc = next_bit(free, out_vc + 1, vc.end_vc)) r.scratch.heads.ask(local, vc.out_port * width_ + out_vc, local);
  });
  if (several == 0) return any;
  r.scratch.heads.match(r.of_vcs, [&](const Ask& ask) __attribute__((always_inline)) {
    give_vc(r, ask.tag, r.vcs[ask.tag], ask.output % width_);
    any = true;
  });
  return any;
}

template <class Words>
[[gnu::always_inline]] inline bool StagedRouters::allocate_alone(const Running<Words>& r, int local, InputVc& vc) {
  const std::uint64_t* const free = credits_->idle(vc.out);
  const int base = vc.out_port * width_;
  const int chosen = next_in_turn(free, std::max<int>(vc.first_vc, r.of_vcs.of_input[local] - base), vc.first_vc, vc.end_vc);
  if (chosen < 0) {
    credits_->wait_for_credit(vc.out, r.now);
    return false;
  }
  r.of_vcs.move_on(local, base + chosen);
  give_vc(r, local, vc, chosen);
  return true;
}

template <class Words>
[[gnu::always_inline]] inline void StagedRouters::give_vc(const Running<Words>& r, int local, InputVc& vc, int out_vc) {
  r.remove(kAllocating, local);
  r.add(kSwitching, local);
  vc.state = VcState::active;
  vc.out_vc = narrow<std::int16_t>(out_vc);
  credits_->give_vc(vc.out, out_vc);
}

[[gnu::always_inline]] inline bool StagedRouters::has_room(const InputVc& vc, Cycle now) {
  int needed = 1;
  if (rules_->cut_through()) {
    const Flit& flit = vc.buffer.front();
    if (flit.head) needed = (*packets_)[flit.packet].flits;
  }
  return credits_->has_credits(vc.out, vc.out_vc, needed, now);
}

inline int StagedRouters::input_of_switch(const InputVc& vc) const {
  const int speedup = rules_->input_speedup;
  return speedup == 1 ? vc.input : vc.input * speedup + vc.number % speedup;
}

template <class Words>
[[gnu::always_inline]] inline void StagedRouters::ask_for_switch(const Running<Words>& r, int local, const InputVc& vc, Matcher& asks) {
  const int input = input_of_switch(vc);
  // Heads that speculate ask after all others, so that any may be of this input.
  int* const other = asks.find(input, vc.out_port, vc.state == VcState::active ? vc.input * rules_->input_speedup : 0);
  if (other == nullptr) {
    asks.ask(input, vc.out_port, local);
    return;
  }
  if (shape_->routes.is_collapsed() && r.vcs[*other].way != vc.way)
    throw UnlikeChoice{at(links_, vc.out).dimension};  // outputs that one represents
  if (r.vcs[*other].state != vc.state) return;         // the other does not speculate
  const int count = shape_->vc_count(vc.channel);
  const int start = r.next_vc[input] < count ? r.next_vc[input] : r.next_vc[input] - count;
  auto turn = [&](int number) { return number < start ? number - start + count : number - start; };
  if (turn(vc.number) < turn(r.vcs[*other].number)) *other = local;
}

template <class Words>
[[gnu::always_inline]] inline void StagedRouters::ask_surely(const Running<Words>& r) {
  r.scratch.asks.begin(r.of_switch);
  r.each(kSwitching, [&](int local) __attribute__((always_inline)) {
    const InputVc& vc = r.vcs[local];
    if (has_room(vc, r.now)) {
      ask_for_switch(r, local, vc, r.scratch.asks);
    } else {
      credits_->wait_for_credit(vc.out, r.now);
    }
  });
}

template <class Words>
[[gnu::noinline]] void StagedRouters::ask_speculatively(Running<Words> r) {
  const bool shared = !rules_->separate_speculation();
  Matcher& asks = shared ? r.scratch.asks : r.scratch.speculative;
  if (!shared) asks.begin(r.speculative);
  r.each(kAllocating, [&](int local) {
    const InputVc& vc = r.vcs[local];
    credits_->take(vc.out, r.now);
    for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
      if (!has_bit(credits_->idle(vc.out), out_vc) || credits_->count(vc.out, out_vc) == 0) continue;
      if (!shared || !rules_->input_first() || asks.comes_last(input_of_switch(vc))) ask_for_switch(r, local, vc, asks);
      break;
    }
  });
}

template <class Words>
[[gnu::always_inline]] inline bool StagedRouters::allocate_switch(const Running<Words>& r) {
  if (shape_->routes.is_collapsed()) check_asks(r.vcs, r.scratch.asks.asks());
  bool any = false;
  r.scratch.matched.clear();
  r.scratch.asks.match(r.of_switch, [&](const Ask& ask) __attribute__((always_inline)) {
    cross(r, ask);
    any = true;
    if (rules_->speculative) r.scratch.matched.push_back(ask);
  });
  if (r.scratch.speculative.empty()) return any;
  allocate_separately(r);
  return true;
}

template <class Words>
[[gnu::noinline]] void StagedRouters::allocate_separately(Running<Words> r) {
  if (shape_->routes.is_collapsed()) check_asks(r.vcs, r.scratch.speculative.asks());
  r.scratch.speculative.match(r.speculative, [&](const Ask& ask) __attribute__((always_inline)) {
    bool taken = false;
    for (const Ask& sure : r.scratch.matched) taken = taken || sure.input == ask.input || sure.output == ask.output;
    if (!taken) cross(r, ask);
  });
}

template <class Words>
[[gnu::always_inline]] inline void StagedRouters::cross(const Running<Words>& r, const Ask& ask) {
  InputVc& vc = r.vcs[ask.tag];
  const Cycle cycle = clock_->cycles_of(r.number, 1);
  r.next_vc[ask.input] = vc.number + rules_->input_speedup;
  if (rules_->speculative && (vc.state != VcState::active || !has_room(vc, r.now))) return;
  inputs_->forward(vc, r.now, cycle);
  const bool idle = vc.state == VcState::idle;
  const bool empty = vc.arrived == 0;
  if (idle || empty) r.remove(kSwitching, ask.tag);
  if (idle && !empty) begin_packet(r.number, r.router, ask.tag, vc, r.now, r.now + cycle * (1 + rules_->routing_delay));
}

void StagedRouters::check_heads(const InputVc* vcs, const std::vector<int>& heads) const {
  for (int a : heads) {
    for (int b : heads) {
      if (a == b || vcs[a].out != vcs[b].out) continue;
      for (int input : {vcs[a].channel, vcs[b].channel}) {
        if (at(links_, input).sink_port_varies) throw UnlikeChoice{at(links_, input).dimension};
      }
    }
  }
}

// Of two requests of one input, or for one output.
void StagedRouters::check_asks(const InputVc* vcs, const std::vector<Ask>& asks) const {
  for (std::size_t i = 0; i < asks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const InputVc& a = vcs[asks[i].tag];
      const InputVc& b = vcs[asks[j].tag];
      if (asks[i].input != asks[j].input && asks[i].output != asks[j].output) continue;
      for (int input : {a.channel, b.channel}) {
        if (at(links_, input).sink_port_varies) throw UnlikeChoice{at(links_, input).dimension};
      }
      for (int output : {a.out, b.out}) {
        if (at(links_, output).source_port_varies) throw UnlikeChoice{at(links_, output).dimension};
      }
    }
  }
}

void StagedRouters::snapshot(Snapshot& snapshot) const {
  for (const Router& router : routers_) {
    for (std::size_t word = 0; word < router.words; ++word) {
      snapshot.put(wide(sets_[router.first_word + kAllocating * router.words + word]));
    }
  }
  for (int pointer : pointers_) snapshot.put(pointer);
}

// Only the sets by time move: pointers of a repeated period are where they were.
void StagedRouters::shift(Cycle later) {
  for (int r = 0; r < count_of(routers_); ++r) {
    const Router& router = at(routers_, r);
    const std::size_t by = (index(clock_->own_cycle(r, later)) & (kStartingSets - 1)) * router.words;
    std::uint64_t* const first = &sets_[router.first_word + kStarting * router.words];
    std::uint64_t* const end = first + kStartingSets * router.words;
    std::rotate(first, end - by, end);
  }
}

}  // namespace astra::packet
