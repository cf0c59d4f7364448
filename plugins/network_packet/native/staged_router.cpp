// A router with separate stages: route computation, virtual channel allocation, switch allocation, traversal (BookSim's input-queued one).

#include <algorithm>
#include <utility>

#include "domain.hpp"

namespace astra::packet {

void Domain::run_staged(int r, Cycle now) {
  std::uint64_t* const start = starting(r, now);
  const std::size_t words = router_words_[static_cast<std::size_t>(r) + 1] - router_words_[static_cast<std::size_t>(r)];
  for (std::size_t word = 0; word < words; ++word) allocating(r)[word] |= std::exchange(start[word], 0);
  speculative_.clear();
  given_.clear();
  if (shape_->rules.speculative) ask_speculatively(r, now);
  const bool vcs_given = allocate_vcs(r, now);
  const bool switched = allocate_switch(r, now);
  if (vcs_given || switched) schedule(r, now + 1);
}

void Domain::receive_staged(int c, Flit flit, Cycle now) {
  const int r = link(c).sink;
  const std::size_t index = vc_index(c, flit.vc);
  ReceiverVc& vc = receivers_[index];
  const bool was_empty = vc.buffer.empty();
  vc.buffer.push(flit);
  set_bit(occupied(c), flit.vc);
  if (vc.state == VcState::idle) {
    begin_packet(r, vc, now + cycles_of(r, shape_->rules.routing_delay));
  } else if (vc.state == VcState::active && was_empty) {
    const int local = static_cast<int>(index) - shape_->vc_base[static_cast<std::size_t>(r)];
    set_bit(switching(r), local);
    schedule(r, now);
  }
}

// The head at the front of a virtual channel is routed; from `since` on it asks for an output virtual channel.
void Domain::begin_packet(int r, ReceiverVc& vc, Cycle since) {
  vc.state = VcState::allocating;
  vc.since = since;
  set_route(r, vc.channel, vc, packets_[vc.buffer.front().packet]);
  const int local = static_cast<int>(vc_index(vc.channel, vc.number)) - shape_->vc_base[static_cast<std::size_t>(r)];
  set_bit(starting(r, since), local);
  schedule(r, since);
}

// Virtual channels of inputs are numbered within the router here (`local`), for arbiters by input and number.
bool Domain::allocate_vcs(int r, Cycle now) {
  const ReceiverVc* const vcs = &receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)])];
  std::uint64_t outputs = 0;
  bool apart = shape_->router[static_cast<std::size_t>(r)].output_ports <= 64;
  heads_.clear();
  each_of_router(allocating_, r, [&](int local) {
    const ReceiverVc& vc = vcs[local];
    heads_.push_back(local);
    const std::uint64_t bit = 1ULL << (vc.out_port & 63);
    apart = apart && (outputs & bit) == 0;
    outputs |= bit;
    if (shape_->rules.wait_for_tail_credit) take_credits(vc.out, now);
  });
  if (heads_.empty()) return false;
  if (apart) return allocate_apart(r);

  const int width = shape_->rules.vnets * shape_->rules.vcs;
  asks_.clear();
  for (int local : heads_) {
    const ReceiverVc& vc = vcs[local];
    const std::uint64_t* const free = idle(vc.out);
    const int input = link(vc.channel).sink_place * width + vc.number;
    int out_vc = next_bit(free, vc.first_vc, vc.end_vc);
    if (out_vc < 0) wait_for_credit(vc.out);
    for (; out_vc >= 0; out_vc = next_bit(free, out_vc + 1, vc.end_vc)) asks_.push_back({input, vc.out_port * width + out_vc, local});
  }
  matched_.clear();
  matcher_.match(asks_, routers_[static_cast<std::size_t>(r)].vc_pointers, shape_->rules.input_first, matched_);
  for (const Ask& ask : matched_) give_vc(r, ask.tag, ask.output % width);
  return !matched_.empty();
}

// The same where no two heads want the same output: each gets the idle virtual channel that is next in turn.
bool Domain::allocate_apart(int r) {
  Pointers& pointers = routers_[static_cast<std::size_t>(r)].vc_pointers;
  const ReceiverVc* const vcs = &receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)])];
  const int width = shape_->rules.vnets * shape_->rules.vcs;
  const int inputs = static_cast<int>(pointers.of_input.size());
  const int outputs = static_cast<int>(pointers.of_output.size());
  bool any = false;
  for (int local : heads_) {
    const ReceiverVc& vc = vcs[local];
    const std::uint64_t* const free = idle(vc.out);
    const int base = vc.out_port * width;
    const int self = link(vc.channel).sink_place * width + vc.number;
    int& pointer = pointers.of_input[static_cast<std::size_t>(self)];
    int chosen = next_bit(free, std::max<int>(vc.first_vc, pointer - base), vc.end_vc);
    if (chosen < 0) chosen = next_bit(free, vc.first_vc, vc.end_vc);
    if (chosen < 0) {
      wait_for_credit(vc.out);
      continue;
    }
    pointer = base + chosen + 1 == outputs ? 0 : base + chosen + 1;
    pointers.of_output[static_cast<std::size_t>(base + chosen)] = self + 1 == inputs ? 0 : self + 1;
    give_vc(r, local, chosen);
    any = true;
  }
  return any;
}

// It goes to the switch in the next cycle.
void Domain::give_vc(int r, int local, int out_vc) {
  clear_bit(allocating(r), local);
  given_.push_back(local);
  ReceiverVc& vc = receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)] + local)];
  vc.state = VcState::active;
  vc.out_vc = static_cast<std::int16_t>(out_vc);
  clear_bit(idle(vc.out), out_vc);
}

bool Domain::has_room(const ReceiverVc& vc) const {
  const Flit& flit = vc.buffer.front();
  const int needed = shape_->rules.cut_through && flit.head ? packets_[flit.packet].flits : 1;
  return credits_[vc_index(vc.out, vc.out_vc)] >= needed;
}

// One request for each input of the switch and output: of several virtual channels, the next in turn.
void Domain::ask_for_switch(int r, int local, std::vector<Ask>& asks) {
  const ReceiverVc* const vcs = &receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)])];
  const ReceiverVc& vc = vcs[local];
  const int speedup = shape_->rules.input_speedup;
  const int place = link(vc.channel).sink_place;
  const int input = speedup == 1 ? place : place * speedup + vc.number % speedup;
  int& chosen = choice_[static_cast<std::size_t>(input * shape_->router[static_cast<std::size_t>(r)].output_ports + vc.out_port)];
  if (chosen < 0) {
    chosen = static_cast<int>(asks.size());
    asks.push_back({input, vc.out_port, local});
    return;
  }
  const int start = routers_[static_cast<std::size_t>(r)].next_vc[static_cast<std::size_t>(input)];
  const int width = shape_->vc_count(vc.channel);
  auto turn = [&](int number) { return number < start ? number - start + width : number - start; };
  int& other = asks[static_cast<std::size_t>(chosen)].tag;
  if (turn(vc.number) < turn(vcs[other].number)) other = local;
}

void Domain::forget_choices(int r, const std::vector<Ask>& asks) {
  const int ports = shape_->router[static_cast<std::size_t>(r)].output_ports;
  for (const Ask& ask : asks) choice_[static_cast<std::size_t>(ask.input * ports + ask.output)] = -1;
}

// Virtual channels that have one at the output ask for the switch if there is room.
void Domain::ask_surely(int r, Cycle now) {
  const int base = shape_->vc_base[static_cast<std::size_t>(r)];
  asks_.clear();
  each_of_router(switching_, r, [&](int local) {
    const ReceiverVc& vc = receivers_[static_cast<std::size_t>(base + local)];
    take_credits(vc.out, now);
    if (has_room(vc)) {
      ask_for_switch(r, local, asks_);
    } else {
      wait_for_credit(vc.out);
    }
  });
  forget_choices(r, asks_);
}

// Heads that ask for a virtual channel ask for the switch too, as if they already had one.
void Domain::ask_speculatively(int r, Cycle now) {
  const int base = shape_->vc_base[static_cast<std::size_t>(r)];
  each_of_router(allocating_, r, [&](int local) {
    const ReceiverVc& vc = receivers_[static_cast<std::size_t>(base + local)];
    take_credits(vc.out, now);
    for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
      if (!has_bit(idle(vc.out), out_vc) || credits_[vc_index(vc.out, out_vc)] == 0) continue;
      ask_for_switch(r, local, speculative_);
      break;
    }
  });
  forget_choices(r, speculative_);
}

bool Domain::allocate_switch(int r, Cycle now) {
  RouterState& state = routers_[static_cast<std::size_t>(r)];
  ask_surely(r, now);
  for (int local : given_) set_bit(switching(r), local);
  matched_.clear();
  if (!asks_.empty()) matcher_.match(asks_, state.switch_pointers, shape_->rules.input_first, matched_);
  const std::size_t sure = matched_.size();
  for (const Ask& ask : matched_) cross(r, ask, now);
  if (speculative_.empty()) return sure > 0;

  std::vector<Ask> guessed;
  matcher_.match(speculative_, state.speculative_pointers, shape_->rules.input_first, guessed);
  for (const Ask& ask : guessed) {
    const ReceiverVc& vc = receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)] + ask.tag)];
    bool taken = vc.state != VcState::active || !has_room(vc);
    for (std::size_t i = 0; i < sure; ++i) taken = taken || matched_[i].input == ask.input || matched_[i].output == ask.output;
    if (!taken) cross(r, ask, now);
  }
  return true;
}

// A flit goes through the switch. Behind a tail, the next packet in the buffer begins in the next cycle.
void Domain::cross(int r, const Ask& ask, Cycle now) {
  RouterState& state = routers_[static_cast<std::size_t>(r)];
  ReceiverVc& vc = receivers_[static_cast<std::size_t>(shape_->vc_base[static_cast<std::size_t>(r)] + ask.tag)];
  const int next = vc.number + shape_->rules.input_speedup;
  const int count = shape_->vc_count(vc.channel);
  state.next_vc[static_cast<std::size_t>(ask.input)] = next < count ? next : next - count;
  forward(vc.channel, vc.number, now);
  if (vc.state == VcState::idle || vc.buffer.empty()) clear_bit(switching(r), ask.tag);
  if (vc.state == VcState::idle && !vc.buffer.empty()) begin_packet(r, vc, now + cycles_of(r, 1 + shape_->rules.routing_delay));
}

}  // namespace astra::packet
