// A router that gives a head its output virtual channel together with the switch (Garnet).
//
// Switch allocation is separable, input first: every input port picks one of its virtual channels, then every output port one of the
// inputs. Of the packets at an input port that may take the same virtual channels of the same output, only the oldest that has a flit may
// ask. Those of another class do not wait for it: they are what it may be waiting for, beyond a dateline.

#include "domain.hpp"

namespace astra::packet {

void Domain::run_combined(int r, Cycle now) {
  const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
  RouterState& state = routers_[static_cast<std::size_t>(r)];
  requests_.clear();
  for (int input = 0; input < static_cast<int>(spec.inputs.size()); ++input) {
    const int in = spec.inputs[static_cast<std::size_t>(input)];
    if (next_bit(occupied(in), 0, shape_->vc_count(in)) < 0) continue;
    const int vc = choose_vc(r, input, now);
    if (vc < 0) continue;
    const int port = receivers_[vc_index(in, vc)].out_port;
    int distance = link(in).sink_port - state.output_pointer[static_cast<std::size_t>(port)];
    if (distance < 0) distance += spec.input_ports;
    requests_.push_back({port, in, vc, distance});
  }
  if (requests_.empty()) return;
  for (int i = 0; i < static_cast<int>(requests_.size()); ++i) {
    int& best = best_[static_cast<std::size_t>(requests_[static_cast<std::size_t>(i)].output)];
    if (best >= 0) state.output_choice[static_cast<std::size_t>(requests_[static_cast<std::size_t>(i)].output)] = now;
    if (best < 0 || requests_[static_cast<std::size_t>(i)].distance < requests_[static_cast<std::size_t>(best)].distance) best = i;
  }
  for (const Request& request : requests_) {
    int& best = best_[static_cast<std::size_t>(request.output)];
    if (best < 0) continue;
    const Request won = requests_[static_cast<std::size_t>(best)];
    best = -1;
    int& pointer = state.output_pointer[static_cast<std::size_t>(won.output)];
    pointer = pointer + 1 == spec.input_ports ? 0 : pointer + 1;
    ReceiverVc& vc = receivers_[vc_index(won.input, won.vc)];
    if (vc.out_vc < 0) {
      vc.out_vc = static_cast<std::int16_t>(idle_vc(won.input, vc));
      clear_bit(idle(vc.out), vc.out_vc);
    }
    forward(won.input, won.vc, now);
  }
  schedule(r, now + 1);
}

void Domain::receive_combined(int c, Flit flit, Cycle now) {
  const int r = link(c).sink;
  ReceiverVc& vc = receivers_[vc_index(c, flit.vc)];
  if (flit.head) {
    vc.state = VcState::active;
    vc.since = now;
    set_route(r, c, vc, packets_[flit.packet]);
  }
  if (calls_matter_) {
    call_router(r, c, now);
    settle_calls(r, now);
    if (shape_->rules.router_latency > 2) routers_[static_cast<std::size_t>(r)].ready.push(now + shape_->rules.router_latency - 1);
  }
  vc.buffer.push(flit);
  set_bit(occupied(c), flit.vc);
  schedule(r, now + cycles_of(r, shape_->rules.router_latency - 1));
}

// The virtual channel that an input port sends to the switch, or -1. Its pointer moves on by one when there is one.
int Domain::choose_vc(int r, int input, Cycle now) {
  const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
  const int c = spec.inputs[static_cast<std::size_t>(input)];
  const Rules& rules = shape_->rules;
  const int all = rules.vnets * rules.vcs;
  int& pointer = routers_[static_cast<std::size_t>(r)].input_pointer[static_cast<std::size_t>(input)];
  const Cycle arrived_by = now - cycles_of(r, rules.router_latency - 1);

  candidates_.clear();
  each_occupied(c, [&](int number) {
    const ReceiverVc& vc = receivers_[vc_index(c, number)];
    if (vc.buffer.front().time > arrived_by) return;
    for (Candidate& other : candidates_) {
      if (other.out == vc.out && other.first_vc == vc.first_vc) {
        if (vc.since < other.since) other = {vc.out, vc.first_vc, number, vc.since};
        return;
      }
    }
    candidates_.push_back({vc.out, vc.first_vc, number, vc.since});
  });
  int chosen = -1;
  int nearest = all;
  int choices = 0;
  for (const Candidate& candidate : candidates_) {
    take_credits(candidate.out, now);
    const ReceiverVc& vc = receivers_[vc_index(c, candidate.vc)];
    const bool allowed = vc.out_vc < 0 ? idle_vc(c, vc) >= 0 : credits_[vc_index(vc.out, vc.out_vc)] > 0;
    if (!allowed) {
      wait_for_credit(vc.out);
      continue;
    }
    ++choices;
    int distance = link(c).first_vnet * rules.vcs + candidate.vc - pointer;
    if (distance < 0) distance += all;
    if (distance < nearest) {
      nearest = distance;
      chosen = candidate.vc;
    }
  }
  if (choices > 1) routers_[static_cast<std::size_t>(r)].input_choice[static_cast<std::size_t>(input)] = now;
  if (chosen >= 0) pointer = pointer + 1 == all ? 0 : pointer + 1;
  return chosen;
}

// The lowest idle virtual channel that a head may take, or -1.
int Domain::idle_vc(int in, const ReceiverVc& vc) const {
  const Link& out = link(vc.out);
  const int lowest = next_bit(idle(vc.out), vc.first_vc, vc.end_vc);
  // With bubbles, who enters a ring leaves one buffer in it free.
  const bool enters = shape_->rules.bubble && out.ring && link(in).dimension != out.dimension;
  return enters && lowest >= 0 && next_bit(idle(vc.out), lowest + 1, vc.end_vc) < 0 ? -1 : lowest;
}

// The first flit of an input virtual channel goes through the crossbar; its credit goes back.
void Domain::forward(int in, int in_vc, Cycle now) {
  ReceiverVc& vc = receivers_[vc_index(in, in_vc)];
  Flit flit = vc.buffer.front();
  vc.buffer.pop();
  statistics_.add(in, Statistics::kChannelWaiting, now - flit.time);
  if (vc.buffer.empty()) clear_bit(occupied(in), in_vc);
  --credits_[vc_index(vc.out, vc.out_vc)];
  if (flit.tail && !shape_->rules.wait_for_tail_credit) set_bit(idle(vc.out), vc.out_vc);
  flit.vc = static_cast<std::uint16_t>(vc.out_vc);
  const int r = link(in).sink;
  send_flit(vc.out, flit, now + cycles_of(r, shape_->rules.switch_traversal));
  send_credit(in, static_cast<std::uint16_t>(in_vc), flit.tail, now + cycles_of(r, 1));
  if (flit.tail) vc.state = VcState::idle;
}

}  // namespace astra::packet
