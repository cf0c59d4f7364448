// A router with separate stages: route computation, virtual channel allocation, switch allocation, traversal (BookSim's input-queued one).

#include "domain.hpp"

namespace astra::packet {

void Domain::run_staged(int r, Cycle now) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    for (int input = 0; input < static_cast<int>(spec.inputs.size()); ++input) {
        if (flit_due_[static_cast<std::size_t>(spec.inputs[static_cast<std::size_t>(input)])] <= now) receive_staged(r, input, now);
    }
    for (int c : spec.outputs) {
        if (credit_due_[static_cast<std::size_t>(c)] <= now) take_credits(c, now);
    }
    speculative_.clear();
    if (shape_->rules.speculative) ask_speculatively(r, now);
    const bool vcs_given = !routers_[static_cast<std::size_t>(r)].allocating.empty() && allocate_vcs(r, now);
    const bool switched = allocate_switch(r, now);
    if (vcs_given || switched) schedule(r, now + 1);
}

void Domain::receive_staged(int r, int input, Cycle now) {
    const int c = shape_->router[static_cast<std::size_t>(r)].inputs[static_cast<std::size_t>(input)];
    const Flit flit = take_flit(c);
    ReceiverVc& vc = receivers_[vc_index(c, flit.vc)];
    if (vc.state == VcState::active && vc.buffer.empty()) routers_[static_cast<std::size_t>(r)].switching.emplace_back(input, flit.vc);
    vc.buffer.push(flit);
    occupy(c, flit.vc);
    if (vc.state == VcState::idle) begin_packet(r, input, flit.vc, now + shape_->rules.routing_delay);
}

// The head at the front of a virtual channel is routed; from `since` on it asks for an output virtual channel.
void Domain::begin_packet(int r, int input, int vc_number, Cycle since) {
    const int c = shape_->router[static_cast<std::size_t>(r)].inputs[static_cast<std::size_t>(input)];
    ReceiverVc& vc = receivers_[vc_index(c, vc_number)];
    vc.state = VcState::allocating;
    vc.since = since;
    set_route(r, c, vc, packets_[vc.buffer.front().packet]);
    routers_[static_cast<std::size_t>(r)].allocating.emplace_back(input, vc_number);
    schedule(r, since);
}

bool Domain::allocate_vcs(int r, Cycle now) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    const int width = shape_->rules.vnets * shape_->rules.vcs;
    std::uint64_t outputs = 0;
    int ready = 0;
    bool apart = spec.output_ports <= 64;
    for (const auto& [input, number] : state.allocating) {
        const ReceiverVc& vc = receivers_[vc_index(spec.inputs[static_cast<std::size_t>(input)], number)];
        if (vc.since > now) continue;
        ++ready;
        if (state.allocating.size() == 1) break;
        const std::uint64_t bit = 1ULL << (vc.out_port % 64);
        apart = apart && (outputs & bit) == 0;
        outputs |= bit;
    }
    if (ready == 0) return false;
    bool any = false;
    if (apart) {
        any = allocate_apart(r, now);
    } else {
        asks_.clear();
        for (int i = 0; i < static_cast<int>(state.allocating.size()); ++i) {
            const auto [input, number] = state.allocating[static_cast<std::size_t>(i)];
            const ReceiverVc& vc = receivers_[vc_index(spec.inputs[static_cast<std::size_t>(input)], number)];
            if (vc.since > now) continue;
                const int port = vc.out_port;
            bool asked = false;
            for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
                if (senders_[vc_index(vc.out, out_vc)].busy) continue;
                asks_.push_back({input * width + number, port * width + out_vc, i});
                asked = true;
            }
            if (!asked) wait_for_credit(vc.out);
        }
        matched_.clear();
        matcher_.match(asks_, state.vc_pointers, shape_->rules.input_first, matched_);
        for (const Ask& ask : matched_) give_vc(r, ask.tag, ask.output % width, now);
        any = !matched_.empty();
    }
    if (any) std::erase_if(state.allocating, [](const auto& entry) { return entry.first < 0; });
    return any;
}

// The same where no two heads want the same output: each gets the idle virtual channel that is next in turn.
bool Domain::allocate_apart(int r, Cycle now) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    const int width = shape_->rules.vnets * shape_->rules.vcs;
    const int inputs = static_cast<int>(state.vc_pointers.of_input.size());
    const int outputs = static_cast<int>(state.vc_pointers.of_output.size());
    bool any = false;
    for (int i = 0; i < static_cast<int>(state.allocating.size()); ++i) {
        const auto [input, number] = state.allocating[static_cast<std::size_t>(i)];
        const ReceiverVc& vc = receivers_[vc_index(spec.inputs[static_cast<std::size_t>(input)], number)];
        if (vc.since > now) continue;
        const int base = vc.out_port * width;
        const int self = input * width + number;
        int& pointer = state.vc_pointers.of_input[static_cast<std::size_t>(self)];
        int chosen = -1;
        for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
            if (senders_[vc_index(vc.out, out_vc)].busy) continue;
            if (chosen < 0) chosen = out_vc;
            if (base + out_vc >= pointer) {
                chosen = out_vc;
                break;
            }
        }
        if (chosen < 0) {
            wait_for_credit(vc.out);
            continue;
        }
        pointer = base + chosen + 1 == outputs ? 0 : base + chosen + 1;
        state.vc_pointers.of_output[static_cast<std::size_t>(base + chosen)] = self + 1 == inputs ? 0 : self + 1;
        give_vc(r, i, chosen, now);
        any = true;
    }
    return any;
}

void Domain::give_vc(int r, int place, int out_vc, Cycle now) {
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    auto& [input, number] = state.allocating[static_cast<std::size_t>(place)];
    state.switching.emplace_back(input, number);
    ReceiverVc& vc = receivers_[vc_index(shape_->router[static_cast<std::size_t>(r)].inputs[static_cast<std::size_t>(input)], number)];
    vc.state = VcState::active;
    vc.since = now + 1;
    vc.out_vc = static_cast<std::int16_t>(out_vc);
    senders_[vc_index(vc.out, out_vc)].busy = true;
    input = -1;
}

bool Domain::has_room(const ReceiverVc& vc) const {
    const Flit& flit = vc.buffer.front();
    const int needed = shape_->rules.cut_through && flit.head ? packets_[flit.packet].flits : 1;
    return senders_[vc_index(vc.out, vc.out_vc)].credits >= needed;
}

// One request for each input of the switch and output: of several virtual channels, the next in turn.
void Domain::ask_for_switch(int r, Cycle now) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    const int speedup = shape_->rules.input_speedup;
    asks_.clear();
    for (const auto& [input, number] : state.switching) {
        const int c = spec.inputs[static_cast<std::size_t>(input)];
        const ReceiverVc& vc = receivers_[vc_index(c, number)];
        if (vc.since > now) continue;
        if (!has_room(vc)) {
            wait_for_credit(vc.out);
            continue;
        }
        const int port = vc.out_port;
        const int expanded = speedup == 1 ? input : input * speedup + number % speedup;
        int& chosen = choice_[static_cast<std::size_t>(expanded * spec.output_ports + port)];
        if (chosen < 0) {
            chosen = static_cast<int>(asks_.size());
            asks_.push_back({expanded, port, number});
            continue;
        }
        const int width = shape_->vc_count(c);
        int& other = asks_[static_cast<std::size_t>(chosen)].tag;
        const int start = state.next_vc[static_cast<std::size_t>(expanded)];
        const int nearer = number < start ? number - start + width : number - start;
        if (nearer < (other < start ? other - start + width : other - start)) other = number;
    }
    for (const Ask& ask : asks_) choice_[static_cast<std::size_t>(ask.input * spec.output_ports + ask.output)] = -1;
}

// Heads that ask for a virtual channel ask for the switch too, as if they already had one.
void Domain::ask_speculatively(int r, Cycle now) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    const int speedup = shape_->rules.input_speedup;
    for (const auto& [input, number] : routers_[static_cast<std::size_t>(r)].allocating) {
        const ReceiverVc& vc = receivers_[vc_index(spec.inputs[static_cast<std::size_t>(input)], number)];
        if (vc.since > now) continue;
        for (int out_vc = vc.first_vc; out_vc < vc.end_vc; ++out_vc) {
            const SenderVc& sender = senders_[vc_index(vc.out, out_vc)];
            if (sender.busy || sender.credits == 0) continue;
            const int port = vc.out_port;
            speculative_.push_back({input * speedup + number % speedup, port, number});
            break;
        }
    }
}

bool Domain::allocate_switch(int r, Cycle now) {
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    if (state.switching.empty() && speculative_.empty()) return false;
    ask_for_switch(r, now);
    matched_.clear();
    if (!asks_.empty()) matcher_.match(asks_, state.switch_pointers, shape_->rules.input_first, matched_);
    const std::size_t sure = matched_.size();
    for (const Ask& ask : matched_) cross(r, ask, now);
    if (speculative_.empty()) return sure > 0;

    std::vector<Ask> guessed;
    matcher_.match(speculative_, state.speculative_pointers, shape_->rules.input_first, guessed);
    for (const Ask& ask : guessed) {
        const int input = ask.input / shape_->rules.input_speedup;
        const int c = shape_->router[static_cast<std::size_t>(r)].inputs[static_cast<std::size_t>(input)];
        const ReceiverVc& vc = receivers_[vc_index(c, ask.tag)];
        bool taken = vc.state != VcState::active || !has_room(vc);
        for (std::size_t i = 0; i < sure; ++i) taken = taken || matched_[i].input == ask.input || matched_[i].output == ask.output;
        if (!taken) cross(r, ask, now);
    }
    return true;
}

// A flit goes through the switch. Behind a tail, the next packet in the buffer begins in the next cycle.
void Domain::cross(int r, const Ask& ask, Cycle now) {
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    const int speedup = shape_->rules.input_speedup;
    const int input = speedup == 1 ? ask.input : ask.input / speedup;
    const int c = shape_->router[static_cast<std::size_t>(r)].inputs[static_cast<std::size_t>(input)];
    const int next = ask.tag + speedup;
    state.next_vc[static_cast<std::size_t>(ask.input)] = next < shape_->vc_count(c) ? next : next - shape_->vc_count(c);
    forward(c, ask.tag, now);
    ReceiverVc& vc = receivers_[vc_index(c, ask.tag)];
    if (vc.state == VcState::idle || vc.buffer.empty()) {
        std::vector<std::pair<int, int>>& switching = state.switching;
        std::size_t place = 0;
        while (switching[place] != std::pair{input, ask.tag}) ++place;
        switching[place] = switching.back();
        switching.pop_back();
    }
    if (vc.state == VcState::idle && !vc.buffer.empty()) begin_packet(r, input, ask.tag, now + 1 + shape_->rules.routing_delay);
}

}  // namespace astra::packet
