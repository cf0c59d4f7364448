// Phases of collectives: the ranks that run a schedule together.
//
// A schedule gives every rank steps, each a send and a receive. A rank counts tokens: its starts, and one for each message that its
// endpoint has handled. It takes its next step when it has the tokens and messages for which the step waits. Its messages meet a receipt
// of its destination: the state of a receive, which is not posted yet, posted, or done. Which receipt that is was found before the run.
// When a message has met its receive, the endpoint makes a token of it, after its endpoint delay and the pass of the bytes through memory,
// or when the shared bus has carried it. Under rendezvous a message waits for the request that its receive sends.
//
// A rank has finished when it has all its tokens. A phase ends on all its NPUs when the last rank has finished, or on each by itself, or as
// a barrier on those of a group.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "events.hpp"
#include "interface.hpp"
#include "phase_kinds.hpp"
#include "receipts.hpp"
#include "shared_bus.hpp"
#include "transport.hpp"

namespace astra::engine {

// Ranks that end together, those of a phase or (of a barrier) of a group, and how many of them have not finished.
struct Ending {
  std::uint32_t open = 0;
  Time finished_at = -1;
  CausalKeyId causal_key = 0;  // the latest of those that finished last, at finished_at

  // One of the ranks has finished; whether all have.
  bool finish(CausalKeys& causal_keys, Time now, CausalKeyId with) {
    if (finished_at != now || causal_keys.less(causal_key, with)) causal_keys.replace(causal_key, with);
    finished_at = now;
    return --open == 0;
  }
};

// One rank of a phase: its progress, and its measurements. Events come to one after another of thousands of ranks, so that a rank is one
// line of the cache.
struct Rank {
  alignas(64) Time last_token_at = -1;
  Time delay_sum = 0;          // of its receives, from posting to arrival
  std::uint32_t received = 0;  // messages
  NpuId npu = 0;
  std::uint32_t program = 0;  // among those of its schedule
  std::int32_t tokens = 0;
  std::uint32_t next_action = 0;
  CausalKeyId last_causal_key = 0;  // the latest of the tokens that came at last_token_at, if that is this instant
  Receipts receipts;

  Measured measured() const { return {delay_sum, received}; }
};
static_assert(sizeof(Rank) == 64);

// What the rank of an NPU is of: the step that ends with it, as the `order`-th thing that the NPU does.
struct RankStep {
  StepId step = kNone;
  std::uint32_t order = 0;
  std::uint32_t handled = 0;  // messages and starts that the bus took
};

// A message that waits for the request of its receive.
struct Offer {
  NpuId source, destination;
  std::int64_t bytes;
  Time delay;
};

// A phase that happens: its ranks, and those that end together. Its ranks are made when something happens to one of them.
struct Phase {
  PhaseKind* kind = nullptr;
  std::uint64_t flow = 0;    // of its messages
  std::uint32_t ending = 0;  // steps that have not ended with it
  Ending everywhere;
  std::vector<Ending> in_groups;  // of a barrier
  std::unique_ptr<Rank[]> ranks;
  std::unique_ptr<RankStep[]> steps;                // of the ranks
  std::unordered_map<std::uint64_t, Offer> offers;  // by rank and receipt

  const GroupSchedule& schedule() const { return kind->schedule; }
  const Groups& groups() const { return kind->schedule.groups; }
  // The ranks that end together with a rank at a place.
  Ending& ending_of(std::uint32_t place) { return in_groups.empty() ? everywhere : in_groups[place / groups().size]; }
};

class Phases : private TokenListener {
 public:
  Phases(Events& events, Transport& transport, PhaseKinds& kinds, std::uint32_t npus, bool rendezvous, const BusOptions* bus_options);

  // The measurements of the rank of an NPU.
  Measured measured(PhaseId phase, NpuId npu) const;
  // The progress of the rank of an NPU, in the fields of `state` for it.
  void fill(RankState& state, PhaseId phase, NpuId npu) const;

  // The step that ends with a rank; kNone if it has not begun.
  StepId step_of(RankId id) const { return phases_[id.phase].steps ? phases_[id.phase].steps[id.place].step : kNone; }

  // A phase that happens now, on all its NPUs.
  PhaseId start_phase(PhaseKindId kind);
  // The rank of an NPU begins, as the `order`-th thing that it does; `step` ends with it.
  void begin(PhaseId phase, NpuId npu, StepId step, std::uint32_t order);
  // The step of an NPU has ended that its rank ran. The ranks are forgotten with the last of them.
  Measured end(PhaseId phase, NpuId npu);

  // A rank has handled a message, or a start.
  void on_token(RankId id) override;
  // The ranks of a run have, of which this is the first.
  void on_tokens(RankId id, const Run& run);
  // Messages of a run have arrived at their receipts, of which these are the first.
  void on_arrival(RankId id, ReceiptId receipt, const Run& run);
  // A receive was posted whose message had arrived.
  void on_meeting(RankId id, ReceiptId receipt);
  // The request for a message has reached its sender, who sends it as soon as it has it.
  void on_request(RankId id, ReceiptId receipt);
  // The shared bus of an NPU has finished a transfer.
  void on_bus_call(NpuId npu, std::uint32_t call) { buses_.on_call(npu, call); }

 private:
  static constexpr ReceiptId kStart = kNone;  // in place of a receipt: a token that a rank has from the start

  static const LoweredProgram& program_of(const Phase& phase, const Rank& rank) { return phase.schedule().programs.programs[rank.program]; }
  // A phase to whose ranks something happens.
  Phase& phase_of(PhaseId number);
  void make_ranks(Phase& phase);
  void arrive(Phase& phase, RankId id, ReceiptId receipt);
  void count_token(Phase& phase, RankId id);
  // The place of another rank of the same group.
  static std::uint32_t place_of(const Peer& peer, RankId id, const Groups& groups) {
    const std::uint32_t rank = groups.rank_of(id.place);
    return id.place - rank + peer.of(rank, groups.size);
  }
  // Take every step that the tokens of a rank allow.
  void advance(Phase& phase, RankId id, Rank& rank);
  void send(Phase& phase, RankId id, const Rank& rank, const Action& action);
  void post(const Phase& phase, RankId id, Rank& rank, const Action& action);
  // A message has met its receive: the endpoint makes a token of it.
  void receive(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt, Time posted_at);
  // The endpoint makes a token of a message; of a start, if `receipt` is kStart.
  void handle(const Phase& phase, RankId id, Rank& rank, ReceiptId receipt);
  // A rank has finished in a phase.
  void finish(Phase& phase, RankId id, const Rank& rank);

  Events& events_;
  Transport& transport_;
  PhaseKinds& kinds_;
  bool rendezvous_;
  Buses buses_;
  Pool<Phase> phases_;
  InstantKeys last_keys_;  // of the tokens that came last at ranks in this instant
};

}  // namespace astra::engine
