#include "phases.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "errors.hpp"

namespace astra::engine {
namespace {

void check_peer(const Peer& peer, std::uint32_t ranks) {
  if (!peer) return;
  if (peer.kind != PeerKind::exclusive_or) {
    if (peer.value >= ranks) invalid("a peer outside of its group");
    return;
  }
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (power_of_two && peer.value < ranks) return;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if ((rank ^ peer.value) >= ranks) invalid("a peer outside of its group");
  }
}

// That every message of a schedule meets a receive of its own.
class Meetings {
 public:
  explicit Meetings(const RankPrograms& programs) {
    for (std::uint32_t rank = 0; rank < programs.ranks(); ++rank) first_.push_back(first_.back() + programs.of(rank).after_ps.size());
    met_.resize(first_.back());
  }

  void add(std::uint32_t rank, ReceiptId receipt) {
    const std::size_t place = first_[rank] + receipt;
    if (place >= first_[rank + 1] || met_[place]) invalid("a message that meets no receive of its own");
    met_[place] = true;
  }

 private:
  std::vector<std::size_t> first_{0};  // the place of the first receive of each rank
  std::vector<bool> met_;              // the receives of all ranks
};

void check_schedule(const RankPrograms& programs, std::uint32_t ranks, bool has_bus) {
  const std::uint32_t different = programs.ranks();
  if (different != 1 && different != ranks) invalid("a schedule with a wrong number of programs");
  for (const std::uint32_t place : programs.program_of) {
    if (place >= programs.programs.size()) invalid("a rank of a program that does not exist");
  }
  Meetings meetings(programs);
  for (std::uint32_t rank = 0; rank < different; ++rank) {
    const LoweredProgram& program = programs.of(rank);
    const std::uint32_t receives = next_id(program.after_ps);
    if (program.starts < 0 || program.tokens != program.starts + narrow<std::int64_t>(receives)) {
      invalid("a program whose tokens do not add up");
    }
    if (has_bus && program.bus_transfers.size() != narrow<std::size_t>(program.tokens)) invalid("a program without carriages");
    if (has_bus && program.reduced.size() != receives) invalid("a program that does not say what is reduced");
    std::uint32_t received = 0;
    for (const Action& action : program.actions) {
      if (action.after < 0 || action.after_arrivals < 0 || action.bytes < 0) invalid("a step with a negative number");
      check_peer(action.to, ranks);
      check_peer(action.from, ranks);
      if (action.to) meetings.add(different == 1 ? 0 : action.to.of(rank, ranks), action.receipt);
      if (action.from && action.own_receipt != received++) invalid("receives out of order");
    }
    if (received != receives) invalid("a program whose receives do not add up");
  }
}

}  // namespace

Places::Places(const std::vector<NpuId>& members) {
  for (const NpuId npu : members) ordered_.emplace_back(npu, next_id(ordered_));
  std::sort(ordered_.begin(), ordered_.end());
  for (std::size_t at = 1; at < ordered_.size(); ++at) {
    if (ordered_[at].first == ordered_[at - 1].first) invalid("NPU " + std::to_string(ordered_[at].first) + " is in a group twice");
  }
  first_ = ordered_.front().first;
  last_ = ordered_.back().first;
  constexpr std::uint32_t kSparse = 4;  // an NPU in order takes as much as two places of the table
  if ((last_ - first_) / kSparse >= ordered_.size()) return;
  table_.assign(last_ - first_ + 1, kNone);
  for (const auto& [npu, place] : ordered_) table_[npu - first_] = place;
  ordered_ = {};
}

Phases::Phases(Events& events, Transport& transport, std::uint32_t npus, bool rendezvous, const BusOptions* bus_options)
    : events_(events), transport_(transport), npus_(npus), rendezvous_(rendezvous), buses_(bus_options, events, *this, npus) {}

GroupsId Phases::add_groups(std::vector<NpuId> members, std::uint32_t size, bool loop_back) {
  if (size < 1 || members.empty() || members.size() % size) invalid("members that make no groups of one size");
  const std::vector<NpuId> simulated(members.begin(), loop_back ? members.begin() + 1 : members.end());
  for (const NpuId npu : simulated) {
    if (npu >= npus_) invalid("a group with NPU " + std::to_string(npu) + ", which does not exist");
  }
  groups_.push_back({std::move(members), Places(simulated), size, loop_back});
  return next_id(groups_) - 1;
}

ScheduleId Phases::add_schedule(RankPrograms programs, GroupsId groups) {
  if (groups >= groups_.size()) invalid("a schedule for groups that do not exist");
  check_schedule(programs, groups_[groups].size, buses_.shared());
  schedules_.push_back({std::move(programs), next_id(schedules_), groups_[groups]});
  return schedules_.back().number;
}

PhaseKindId Phases::add_phase(ScheduleId schedule, std::int32_t queue, bool together, Time endpoint_ps, bool barrier) {
  if (endpoint_ps < 0) invalid("a negative endpoint delay");
  if (schedule >= schedules_.size()) invalid("a phase of a schedule that does not exist");
  kinds_.push_back({schedules_[schedule], queue, together, endpoint_ps, barrier});
  return next_id(kinds_) - 1;
}

// -- answers ----------------------------------------------------------------------------------------------------------

const CausalKey& Phases::causal_key(PhaseKindId kind) const {
  if (kind >= kinds_.size()) invalid("a phase that does not exist");
  return events_.causal_keys().times(kinds_[kind].causal_key);
}

const Measured& Phases::measured(PhaseId number, NpuId npu) const {
  const Phase& phase = phases_[number];
  return phase.ranks[phase.groups().place_of[npu]].measured;
}

void Phases::fill(RankState& state, PhaseId number, NpuId npu) const {
  const Phase& phase = phases_[number];
  state.schedule = phase.schedule().number;
  state.place = phase.groups().place_of[npu];
  const Rank& rank = phase.ranks[state.place];
  state.tokens = rank.tokens;
  state.arrivals = rank.measured.received;
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
  if (rank.step != kNone) invalid("a phase that is a step of two chunks");
  rank.step = step;
  rank.order = order;
  for (std::int32_t start = rank.program->starts; start > 0; --start) handle(phase, id, rank, kStart);
  advance(phase, id, rank);
}

Measured Phases::end(PhaseId number, NpuId npu) {
  Phase& phase = phases_[number];
  Rank& rank = phase.ranks[phase.groups().place_of[npu]];
  const Measured measured = rank.measured;
  events_.causal_keys().replace(rank.last_causal_key, 0);
  if (--phase.ending == 0) {
    events_.causal_keys().replace(phase.everywhere.causal_key, 0);
    for (Ending& ending : phase.in_groups) events_.causal_keys().replace(ending.causal_key, 0);
    phase.in_groups.clear();
    phase.ranks.reset();
    phases_.release(number);
  }
  return measured;
}

// -- Events of a rank -----------------------------------------------------------------------------------------------

void Phases::on_token(RankId id) { count_token(phase_of(id.phase), id); }

void Phases::on_arrival(RankId id, ReceiptId receipt) { arrive(phase_of(id.phase), id, receipt); }

void Phases::on_tokens(RankId id, const Run& run) {
  Phase& phase = phase_of(id.phase);
  for (std::uint32_t left = run.count; left > 0; --left) {
    count_token(phase, id);
    id.place += narrow<std::uint32_t>(std::int32_t{run.place_step});
  }
}

void Phases::on_arrivals(RankId id, ReceiptId receipt, const Run& run) {
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
  receive(phase, id, rank, receipt, rank.receipts.at(receipt));
}

void Phases::on_request(RankId id, ReceiptId receipt) {
  Phase& phase = phase_of(id.phase);
  Receipt& state = phase.ranks[id.place].receipts.at(receipt);
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
  for (std::uint32_t place = 0; place < groups.ranks(); ++place) {
    Rank& rank = phase.ranks[place];
    rank.npu = groups.members[place];
    rank.rank = place % groups.size;
    rank.program = &phase.schedule().programs.of(rank.rank);
    events_.causal_keys().hold(0);
  }
}

inline void Phases::count_token(Phase& phase, RankId id) {
  Rank& rank = phase.ranks[id.place];
  const CausalKeyId causal_key = events_.causal_key();
  if (rank.last_token_at != events_.now() || events_.causal_keys().less(rank.last_causal_key, causal_key)) {
    events_.causal_keys().replace(rank.last_causal_key, causal_key);
  }
  rank.last_token_at = events_.now();
  ++rank.tokens;
  advance(phase, id, rank);
}

inline void Phases::arrive(Phase& phase, RankId id, ReceiptId receipt) {
  Rank& rank = phase.ranks[id.place];
  Receipt& state = rank.receipts.at(receipt);
  if (state.state & kPosted) return receive(phase, id, rank, receipt, state);
  state.state |= kArrived;
}

inline void Phases::advance(Phase& phase, RankId id, Rank& rank) {
  const LoweredProgram& program = *rank.program;
  while (rank.next_action < program.actions.size()) {
    const Action& action = program.actions[rank.next_action];
    if (rank.tokens < action.after || narrow<std::int32_t>(rank.measured.received) < action.after_arrivals) return;
    ++rank.next_action;
    if (action.to) send(phase, id, rank, action);
    if (action.from) post(phase, id, rank, action);
  }
  if (rank.tokens == program.tokens) finish(phase, id, rank);
}

inline void Phases::send(Phase& phase, RankId id, const Rank& rank, const Action& action) {
  const Groups& groups = phase.groups();
  const std::uint32_t peer = place_of(action.to, id, rank, groups);
  const NpuId destination = groups.members[peer];
  const RankId target{id.phase, groups.loop_back ? id.place : peer};
  if (!rendezvous_) {
    const MessageArrival arrival{target, action.receipt};
    return transport_.transmit(rank.npu, destination, action.bytes, arrival, phase.flow, phase.kind->queue, action.delay);
  }
  Receipt& state = phase.ranks[target.place].receipts.at(action.receipt);
  state.state |= kOffered;
  phase.offers.emplace(pair_key(target.place, action.receipt), Offer{rank.npu, destination, action.bytes, action.delay});
  // A request that is there already counts when it is looked for.
  if (state.state & kGranted) events_.push(events_.now(), rank.npu, RequestArrival{target, action.receipt});
}

inline void Phases::post(const Phase& phase, RankId id, Rank& rank, const Action& action) {
  const ReceiptId receipt = action.own_receipt;
  Receipt& state = rank.receipts.at(receipt);
  state.posted_at = events_.now();
  // A message that is there already is met by an event of its own.
  if (state.state & kArrived) return events_.push(events_.now(), rank.npu, Meeting{id, receipt});
  state.state |= kPosted;
  if (rendezvous_) {
    const NpuId sender = phase.groups().members[place_of(action.from, id, rank, phase.groups())];
    transport_.transmit(rank.npu, sender, kControlBytes, RequestArrival{id, receipt}, phase.flow, phase.kind->queue, action.request_delay);
  }
}

inline void Phases::receive(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt, const Receipt& state) {
  rank.measured.delay_sum += events_.now() - state.posted_at;
  ++rank.measured.received;
  rank.receipts.done(receipt);
  handle(phase, id, rank, receipt);
}

inline void Phases::handle(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt) {
  const LoweredProgram& program = *rank.program;
  const std::uint32_t place = program.in_turn ? rank.measured.received - 1 : receipt;
  const Time after_ps = receipt == kStart ? -1 : program.after_ps[place];
  if (buses_.shared() && !phase.kind->barrier) {
    const bool reduced = receipt != kStart && program.reduced[place];
    return buses_.carry(rank.npu, program.bus_transfers[rank.handled++], reduced, {id, after_ps});
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
  if (!phase.in_groups.empty()) {
    const std::uint32_t size = phase.groups().size;
    return finish_together(phase, phase.in_groups[id.place / size], causal_key, id.place - rank.rank, size);
  }
  if (phase.kind->together || phase.kind->barrier) return finish_together(phase, phase.everywhere, causal_key, 0, phase.groups().ranks());
  events_.push_end(events_.now(), rank.npu, StepEnd{rank.step}, causal_key, events_.next_end_order(rank.npu));
}

void Phases::finish_together(Phase& phase, Ending& ending, CausalKeyId causal_key, std::uint32_t first, std::uint32_t count) {
  CausalKeys& causal_keys = events_.causal_keys();
  if (ending.finished_at != events_.now() || causal_keys.less(ending.causal_key, causal_key))
    causal_keys.replace(ending.causal_key, causal_key);
  ending.finished_at = events_.now();
  if (--ending.open) return;
  causal_keys.replace(phase.kind->causal_key, ending.causal_key);
  for (std::uint32_t place = first; place < first + count; ++place) {
    const Rank& each = phase.ranks[place];
    events_.push_end(events_.now(), each.npu, StepEnd{each.step}, ending.causal_key, each.order);
  }
}

}  // namespace astra::engine
