#include "staged_routers.hpp"

#include <algorithm>
#include <utility>

namespace astra::packet {

StagedRouters::StagedRouters(const Shape& shape, Clock& clock, Channels& channels, InputBuffers& inputs, Messages& messages,
                             RouteComputation& routes)
    : shape_(shape),
      clock_(clock),
      channels_(channels),
      inputs_(inputs),
      messages_(messages),
      routes_(routes),
      links_(shape.link),
      width_(shape.rules.vnets * shape.rules.vcs) {
  if (shape.rules.allocation != Allocation::staged) return;
  for (int r = 0; r < shape.routers(); ++r) {
    const RouterSpec& spec = at(shape.router, r);
    const int inputs_of = count_of(spec.inputs);
    const int expanded = inputs_of * shape.rules.input_speedup;
    Router& router = routers_.emplace_back();
    router.next_vc.assign(index(expanded), 0);
    router.vc_pointers.resize(inputs_of * width_, spec.output_ports * width_);
    router.switch_pointers.resize(expanded, spec.output_ports);
    router.speculative_pointers.resize(expanded, spec.output_ports);
    const int vcs = at(shape.vc_base, r + 1) - at(shape.vc_base, r);
    words_.push_back(words_.back() + index(vcs + 63) / 64);
  }
  allocating_.resize(words_.back());
  switching_.resize(words_.back());
  for (BitSets& sets : starting_) sets.resize(words_.back());
}

void StagedRouters::run(int r, Cycle now) {
  std::uint64_t* const start = starting(r, now);
  std::uint64_t* const allocating = of_router(allocating_, r);
  const std::size_t words = at(words_, r + 1) - at(words_, r);
  for (std::size_t word = 0; word < words; ++word) allocating[word] |= std::exchange(start[word], 0);
  ask_for_switch(r, now);  // first: who gets a virtual channel in this cycle asks from the next on, or has speculated
  const bool vcs_given = allocate_vcs(r, now);
  const bool switched = allocate_switch(r, now);
  if (vcs_given || switched) clock_->wake(r, now + 1);
}

void StagedRouters::receive(int c, const Flit& flit, Cycle now) {
  const int r = at(links_, c).sink;
  InputVc& vc = inputs_->vc(c, flit.vc);
  const bool was_empty = vc.buffer.empty();
  inputs_->push(c, flit);
  if (vc.state == VcState::idle) {
    begin_packet(r, local_of(r, vc), vc, now + clock_->cycles_of(r, shape_->rules.routing_delay));
  } else if (vc.state == VcState::active && was_empty) {
    set_bit(of_router(switching_, r), local_of(r, vc));
    clock_->wake(r, now);
  }
}

void StagedRouters::begin_packet(int r, int local, InputVc& vc, Cycle since) {
  vc.state = VcState::allocating;
  vc.since = since;
  routes_->set_route(r, vc.channel, vc, messages_->packet(vc.buffer.front().packet));
  set_bit(starting(r, since), local);
  clock_->wake(r, since);
}

bool StagedRouters::allocate_vcs(int r, Cycle now) {
  const InputVc* const vcs = inputs_->of_router(r);
  std::uint64_t outputs = 0;
  bool apart = at(shape_->router, r).output_ports <= 64;
  heads_.clear();
  each_of_router(allocating_, r, [&](int local) {
    const InputVc& vc = vcs[local];
    heads_.push_back(local);
    const std::uint64_t bit = 1ULL << (vc.out_port & 63);
    apart = apart && (outputs & bit) == 0;
    outputs |= bit;
    if (shape_->rules.wait_for_tail_credit) channels_->take_credits(vc.out, now);
  });
  if (heads_.empty()) return false;
  if (apart) return allocate_apart(r);
  if (shape_->is_folded()) check_heads(r);

  vc_asks_.clear();
  for (int local : heads_) {
    const InputVc& vc = vcs[local];
    const std::uint64_t* const free = channels_->idle(vc.out);
    const int input = arbiter_input(vc);
    int out_vc = next_bit(free, vc.first_vc, vc.end_vc);
    if (out_vc < 0) channels_->wait_for_credit(vc.out);
    for (; out_vc >= 0; out_vc = next_bit(free, out_vc + 1, vc.end_vc)) vc_asks_.push_back({input, vc.out_port * width_ + out_vc, local});
  }
  matched_.clear();
  matcher_.match(vc_asks_, at(routers_, r).vc_pointers, shape_->rules.input_first, matched_);
  for (const Ask& ask : matched_) give_vc(r, ask.tag, ask.output % width_);
  return !matched_.empty();
}

void StagedRouters::check_heads(int r) const {
  const InputVc* const vcs = inputs_->of_router(r);
  for (int a : heads_) {
    for (int b : heads_) {
      if (a == b || vcs[a].out != vcs[b].out) continue;
      for (int input : {vcs[a].channel, vcs[b].channel}) {
        if (at(links_, input).sink_port_varies) throw UnlikeChoice{at(links_, input).dimension};
      }
    }
  }
}

// Of two requests of one input, or for one output.
void StagedRouters::check_asks(int r, const std::vector<Ask>& asks) const {
  const InputVc* const vcs = inputs_->of_router(r);
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

bool StagedRouters::allocate_apart(int r) {
  Pointers& pointers = at(routers_, r).vc_pointers;
  const InputVc* const vcs = inputs_->of_router(r);
  const int inputs = count_of(pointers.of_input);
  const int outputs = count_of(pointers.of_output);
  bool any = false;
  for (int local : heads_) {
    const InputVc& vc = vcs[local];
    const std::uint64_t* const free = channels_->idle(vc.out);
    const int base = vc.out_port * width_;
    const int self = arbiter_input(vc);
    int& pointer = at(pointers.of_input, self);
    int chosen = next_bit(free, std::max<int>(vc.first_vc, pointer - base), vc.end_vc);
    if (chosen < 0) chosen = next_bit(free, vc.first_vc, vc.end_vc);
    if (chosen < 0) {
      channels_->wait_for_credit(vc.out);
      continue;
    }
    pointer = base + chosen + 1 == outputs ? 0 : base + chosen + 1;
    at(pointers.of_output, base + chosen) = self + 1 == inputs ? 0 : self + 1;
    give_vc(r, local, chosen);
    any = true;
  }
  return any;
}

void StagedRouters::give_vc(int r, int local, int out_vc) {
  clear_bit(of_router(allocating_, r), local);
  set_bit(of_router(switching_, r), local);
  InputVc& vc = inputs_->of_router(r)[local];
  vc.state = VcState::active;
  vc.out_vc = narrow<std::int16_t>(out_vc);
  channels_->give_vc(vc.out, out_vc);
}

bool StagedRouters::has_room(const InputVc& vc) const {
  const Flit& flit = vc.buffer.front();
  const int needed = shape_->rules.cut_through && flit.head ? messages_->packet(flit.packet).flits : 1;
  return channels_->credits(vc.out, vc.out_vc) >= needed;
}

void StagedRouters::add_ask(int r, int local, bool speculative, std::vector<Ask>& asks) {
  const InputVc* const vcs = inputs_->of_router(r);
  const InputVc& vc = vcs[local];
  const int speedup = shape_->rules.input_speedup;
  const int first = at(links_, vc.channel).sink_place * speedup;
  const int input = speedup == 1 ? first : first + vc.number % speedup;
  auto other = asks.rbegin();  // those of the same channel come last
  while (other != asks.rend() && other->input >= first && (other->input != input || other->output != vc.out_port)) ++other;
  if (other == asks.rend() || other->input < first) {
    asks.push_back({input, vc.out_port, local, speculative});
    return;
  }
  if (shape_->is_folded() && vcs[other->tag].way != vc.way)
    throw UnlikeChoice{at(links_, vc.out).dimension};  // outputs for which one stands
  const int start = at(at(routers_, r).next_vc, input);
  const int count = shape_->vc_count(vc.channel);
  auto turn = [&](int number) { return number < start ? number - start + count : number - start; };
  const bool before = turn(vc.number) < turn(vcs[other->tag].number);
  if (speculative == other->speculative ? before : other->speculative) {
    other->tag = local;
    other->speculative = speculative;
  }
}

void StagedRouters::ask_surely(int r, int local, Cycle now) {
  const InputVc& vc = inputs_->of_router(r)[local];
  channels_->take_credits(vc.out, now);
  if (has_room(vc)) {
    add_ask(r, local, false, asks_);
  } else {
    channels_->wait_for_credit(vc.out);
  }
}

void StagedRouters::ask_speculatively(int r, int local, Cycle now) {
  const InputVc& vc = inputs_->of_router(r)[local];
  channels_->take_credits(vc.out, now);
  for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
    if (!has_bit(channels_->idle(vc.out), out_vc) || channels_->credits(vc.out, out_vc) == 0) continue;
    add_ask(r, local, true, shape_->rules.separate_speculation ? speculative_ : asks_);
    break;
  }
}

void StagedRouters::ask_for_switch(int r, Cycle now) {
  asks_.clear();
  speculative_.clear();
  const std::size_t first = at(words_, r);
  for (std::size_t word = first; word < at(words_, r + 1); ++word) {
    const std::uint64_t heads = shape_->rules.speculative ? allocating_[word] : 0;
    const std::uint64_t all = heads | switching_[word];
    each_bit(&all, 1, [&](int bit) {
      const int local = bit_number(word - first, 1ULL << bit);
      if (has_bit(&heads, bit)) {
        ask_speculatively(r, local, now);
      } else {
        ask_surely(r, local, now);
      }
    });
  }
}

bool StagedRouters::allocate_switch(int r, Cycle now) {
  matched_.clear();
  if (shape_->is_folded()) check_asks(r, asks_);
  if (!asks_.empty()) matcher_.match(asks_, at(routers_, r).switch_pointers, shape_->rules.input_first, matched_);
  for (const Ask& ask : matched_) cross(r, ask, now);
  if (speculative_.empty()) return !matched_.empty();
  allocate_separately(r, now);
  return true;
}

void StagedRouters::allocate_separately(int r, Cycle now) {
  std::vector<Ask> guessed;
  if (shape_->is_folded()) check_asks(r, speculative_);
  matcher_.match(speculative_, at(routers_, r).speculative_pointers, shape_->rules.input_first, guessed);
  for (const Ask& ask : guessed) {
    bool taken = false;
    for (const Ask& sure : matched_) taken = taken || sure.input == ask.input || sure.output == ask.output;
    if (!taken) cross(r, ask, now);
  }
}

void StagedRouters::cross(int r, const Ask& ask, Cycle now) {
  InputVc& vc = inputs_->of_router(r)[ask.tag];
  const int next = vc.number + shape_->rules.input_speedup;
  const int count = shape_->vc_count(vc.channel);
  at(at(routers_, r).next_vc, ask.input) = next < count ? next : next - count;
  if (ask.speculative && (vc.state != VcState::active || !has_room(vc))) return;  // granted in vain
  inputs_->forward(vc, now);
  if (vc.state == VcState::idle || vc.buffer.empty()) clear_bit(of_router(switching_, r), ask.tag);
  if (vc.state == VcState::idle && !vc.buffer.empty())
    begin_packet(r, ask.tag, vc, now + clock_->cycles_of(r, 1 + shape_->rules.routing_delay));
}

void StagedRouters::snapshot(Snapshot& snapshot) const {
  for (std::uint64_t word : allocating_) snapshot.put(wide(word));
  for (const Router& router : routers_) {
    for (const std::vector<int>* pointers :
         {&router.next_vc, &router.vc_pointers.of_input, &router.vc_pointers.of_output, &router.switch_pointers.of_input,
          &router.switch_pointers.of_output, &router.speculative_pointers.of_input, &router.speculative_pointers.of_output}) {
      for (int pointer : *pointers) snapshot.put(pointer);
    }
  }
}

// Only the sets by time move: pointers of a repeated period are where they were.
void StagedRouters::shift(Cycle later) {
  for (int r = 0; r < count_of(routers_); ++r) {
    const Cycle by = clock_->own_cycle(r, later) & 3;
    for (std::size_t word = at(words_, r); word < at(words_, r + 1); ++word) {
      std::array<std::uint64_t, 4> turned{};
      for (std::size_t slot = 0; slot < 4; ++slot) turned[slot] = starting_[slot][word];
      std::rotate(turned.begin(), turned.end() - by, turned.end());
      for (std::size_t slot = 0; slot < 4; ++slot) starting_[slot][word] = turned[slot];
    }
  }
}

}  // namespace astra::packet
