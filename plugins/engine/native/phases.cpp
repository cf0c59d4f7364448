#include "phases.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "errors.hpp"

namespace astra::engine {

Phases::Phases(Events& events, Transport& transport, PhaseKinds& kinds, std::uint32_t npus, bool rendezvous, const BusOptions* bus_options)
    : events_(events), transport_(transport), kinds_(kinds), rendezvous_(rendezvous), buses_(bus_options, events, *this, npus) {}

// -- answers ----------------------------------------------------------------------------------------------------------

Measured Phases::measured(PhaseId number, NpuId npu) const {
  const Phase& phase = phases_[number];
  return phase.ranks[phase.groups().place_of[npu]].measured();
}

void Phases::fill(RankState& state, PhaseId number, NpuId npu) const {
  const Phase& phase = phases_[number];
  state.schedule = phase.schedule().number;
  state.place = phase.groups().place_of[npu];
  const Rank& rank = phase.ranks[state.place];
  state.tokens = rank.tokens;
  state.arrivals = rank.received;
  state.next_action = rank.next_action;
  rank.receipts.each_posted([&state](ReceiptId receipt) { state.posted.push_back(receipt); });
}

// -- a phase begins and ends ------------------------------------------------------------------------------------------

PhaseId Phases::start_phase(PhaseKindId kind) {
  Phase phase;
  phase.kind = &kinds_[kind];
  phase.flow = transport_.new_flow();
  const Groups& groups = phase.groups();
  phase.everywhere.open = phase.ending = groups.ranks();
  if (phase.kind->barrier && !groups.loop_back) phase.in_groups.assign(groups.ranks() / groups.size, {groups.size});
  return phases_.add(std::move(phase));
}

void Phases::begin(PhaseId number, NpuId npu, StepId step, std::uint32_t order) {
  const RankId id{number, phases_[number].groups().place_of[npu]};
  if (id.place == kNone) invalid("NPU " + std::to_string(npu) + " has no part in a phase that it runs");
  Phase& phase = phase_of(number);
  Rank& rank = phase.ranks[id.place];
  RankStep& begun = phase.steps[id.place];
  if (begun.step != kNone) invalid("a phase that is a step of two chunks");
  begun.step = step;
  begun.order = order;
  for (std::int32_t start = program_of(phase, rank).starts; start > 0; --start) handle(phase, id, rank, kStart);
  advance(phase, id, rank);
}

Measured Phases::end(PhaseId number, NpuId npu) {
  Phase& phase = phases_[number];
  const Measured measured = phase.ranks[phase.groups().place_of[npu]].measured();
  if (--phase.ending == 0) {
    events_.causal_keys().replace(phase.everywhere.causal_key, 0);
    for (Ending& ending : phase.in_groups) events_.causal_keys().replace(ending.causal_key, 0);
    phase.in_groups.clear();
    phase.ranks.reset();
    phase.steps.reset();
    phases_.release(number);
  }
  return measured;
}

// -- Events of a rank -----------------------------------------------------------------------------------------------

void Phases::on_token(RankId id) { count_token(phase_of(id.phase), id); }

void Phases::on_tokens(RankId id, const Run& run) {
  Phase& phase = phase_of(id.phase);
  for (std::uint32_t left = run.count; left > 0; --left) {
    count_token(phase, id);
    id.place += narrow<std::uint32_t>(std::int32_t{run.place_step});
  }
}

void Phases::on_arrival(RankId id, ReceiptId receipt, const Run& run) {
  Phase& phase = phase_of(id.phase);
  for (std::uint32_t left = run.count; left > 0; --left) {
    arrive(phase, id, receipt);
    id.place += narrow<std::uint32_t>(std::int32_t{run.place_step});
    receipt += run.receipt_step;
  }
}

void Phases::on_meeting(RankId id, ReceiptId receipt) {
  const Phase& phase = phase_of(id.phase);
  Rank& rank = phase.ranks[id.place];
  receive(phase, id, rank, receipt, rank.receipts.at(receipt).posted_at);
}

void Phases::on_request(RankId id, ReceiptId receipt) {
  Phase& phase = phase_of(id.phase);
  const Receipt state = phase.ranks[id.place].receipts.at(receipt);
  state.state |= kGranted;
  if (!(state.state & kOffered)) return;
  const auto entry = phase.offers.find(pair_key(id.place, receipt));
  const Offer offer = entry->second;
  phase.offers.erase(entry);
  transport_.transmit(offer.source, offer.destination, offer.bytes, MessageArrival{id, receipt}, phase.flow, phase.kind->queue,
                      offer.delay);
}

// -- steps of a rank --------------------------------------------------------------------------------------------------

inline Phase& Phases::phase_of(PhaseId number) {
  Phase& phase = phases_[number];
  if (!phase.ranks) make_ranks(phase);
  return phase;
}

void Phases::make_ranks(Phase& phase) {
  if (phase.ending == 0) throw std::logic_error("something happens to a phase that has ended");
  const Groups& groups = phase.groups();
  phase.ranks = std::make_unique<Rank[]>(groups.ranks());
  phase.steps = std::make_unique<RankStep[]>(groups.ranks());
  for (std::uint32_t place = 0; place < groups.ranks(); ++place) {
    Rank& rank = phase.ranks[place];
    rank.npu = groups.members[place];
    rank.program = phase.schedule().programs.place_of(groups.rank_of(place));
  }
}

inline void Phases::count_token(Phase& phase, RankId id) {
  Rank& rank = phase.ranks[id.place];
  const CausalKeyId causal_key = events_.causal_key();
  if (rank.last_token_at != events_.now() || events_.causal_keys().less(rank.last_causal_key, causal_key)) {
    last_keys_.hold(events_.causal_keys(), events_.now(), causal_key);
    rank.last_causal_key = causal_key;
  }
  rank.last_token_at = events_.now();
  ++rank.tokens;
  advance(phase, id, rank);
}

inline void Phases::arrive(Phase& phase, RankId id, ReceiptId receipt) {
  Rank& rank = phase.ranks[id.place];
  const Receipt state = rank.receipts.at(receipt);
  if (state.state & kPosted) return receive(phase, id, rank, receipt, state.posted_at);
  state.state |= kArrived;
}

inline void Phases::advance(Phase& phase, RankId id, Rank& rank) {
  const LoweredProgram& program = program_of(phase, rank);
  while (rank.next_action < program.actions.size()) {
    const Action& action = program.actions[rank.next_action];
    if (rank.tokens < action.after || narrow<std::int32_t>(rank.received) < action.after_arrivals) return;
    ++rank.next_action;
    if (action.to) send(phase, id, rank, action);
    if (action.from) post(phase, id, rank, action);
  }
  if (rank.tokens == program.tokens) finish(phase, id, rank);
}

inline void Phases::send(Phase& phase, RankId id, const Rank& rank, const Action& action) {
  const Groups& groups = phase.groups();
  const std::uint32_t peer = place_of(action.to, id, groups);
  const NpuId destination = groups.members[peer];
  const RankId target{id.phase, groups.loop_back ? id.place : peer};
  if (!rendezvous_) {
    const MessageArrival arrival{target, action.receipt};
    return transport_.transmit(rank.npu, destination, action.bytes, arrival, phase.flow, phase.kind->queue, action.delay);
  }
  const Receipt state = phase.ranks[target.place].receipts.at(action.receipt);
  state.state |= kOffered;
  phase.offers.emplace(pair_key(target.place, action.receipt), Offer{rank.npu, destination, action.bytes, action.delay});
  // A request that is there already counts when it is looked for.
  if (state.state & kGranted) events_.push(events_.now(), rank.npu, RequestArrival{target, action.receipt});
}

inline void Phases::post(const Phase& phase, RankId id, Rank& rank, const Action& action) {
  const ReceiptId receipt = action.own_receipt;
  const Receipt state = rank.receipts.at(receipt);
  state.posted_at = events_.now();
  // A message that is there already is met by an event of its own.
  if (state.state & kArrived) return events_.push(events_.now(), rank.npu, Meeting{id, receipt});
  state.state |= kPosted;
  if (rendezvous_) {
    const NpuId sender = phase.groups().members[place_of(action.from, id, phase.groups())];
    transport_.transmit(rank.npu, sender, kControlBytes, RequestArrival{id, receipt}, phase.flow, phase.kind->queue, action.request_delay);
  }
}

inline void Phases::receive(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt, Time posted_at) {
  rank.delay_sum += events_.now() - posted_at;
  ++rank.received;
  rank.receipts.done(receipt);
  handle(phase, id, rank, receipt);
}

inline void Phases::handle(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt) {
  const LoweredProgram& program = program_of(phase, rank);
  const std::uint32_t place = program.in_turn ? rank.received - 1 : receipt;
  const Time after_ps = receipt == kStart ? -1 : program.after_ps[place];
  if (buses_.shared() && !phase.kind->barrier) {
    const bool reduced = receipt != kStart && program.reduced[place];
    return buses_.carry(rank.npu, program.bus_transfers[phase.steps[id.place].handled++], reduced, {id, after_ps});
  }
  const Time done = events_.after(phase.kind->endpoint_ps);
  if (after_ps < 0) return events_.push(done, rank.npu, TokenReady{id});
  // The pass through memory, and computing, are scheduled when the endpoint is done.
  events_.push(sum(done, after_ps), rank.npu, TokenReady{id}, done);
}

void Phases::finish(Phase& phase, RankId id, const Rank& rank) {
  CausalKeys& causal_keys = events_.causal_keys();
  if (rank.last_token_at == events_.now()) causal_keys.hold(rank.last_causal_key);
  const CausalKeys::Held causal_key(causal_keys,
                                    rank.last_token_at == events_.now() ? rank.last_causal_key : causal_keys.make(events_.now()));
  const PhaseKind& kind = *phase.kind;
  if (!kind.together && !kind.barrier) {
    return events_.push_end(events_.now(), rank.npu, StepEnd{phase.steps[id.place].step}, causal_key, events_.next_end_order(rank.npu));
  }
  Ending& ending = phase.ending_of(id.place);
  if (!ending.finish(causal_keys, events_.now(), causal_key)) return;
  causal_keys.replace(phase.kind->causal_key, ending.causal_key);
  const bool in_group = !phase.in_groups.empty();
  const Groups& groups = phase.groups();
  const std::uint32_t first = in_group ? id.place - groups.rank_of(id.place) : 0, count = in_group ? groups.size : groups.ranks();
  for (std::uint32_t place = first; place < first + count; ++place) {
    const RankStep& each = phase.steps[place];
    events_.push_end(events_.now(), phase.ranks[place].npu, StepEnd{each.step}, ending.causal_key, each.order);
  }
}

}  // namespace astra::engine
