#include "phase_kinds.hpp"

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

GroupsId PhaseKinds::add_groups(std::vector<NpuId> members, std::uint32_t size, bool loop_back) {
  if (size < 1 || members.empty() || members.size() % size) invalid("members that make no groups of one size");
  const std::vector<NpuId> simulated(members.begin(), loop_back ? members.begin() + 1 : members.end());
  for (const NpuId npu : simulated) {
    if (npu >= npus_) invalid("a group with NPU " + std::to_string(npu) + ", which does not exist");
  }
  groups_.push_back({std::move(members), Places(simulated), size, loop_back});
  return next_id(groups_) - 1;
}

ScheduleId PhaseKinds::add_schedule(RankPrograms programs, GroupsId groups) {
  if (groups >= groups_.size()) invalid("a schedule for groups that do not exist");
  check_schedule(programs, groups_[groups].size, has_bus_);
  schedules_.push_back({std::move(programs), next_id(schedules_), groups_[groups]});
  return schedules_.back().number;
}

PhaseKindId PhaseKinds::add_phase(ScheduleId schedule, std::int32_t queue, bool together, Time endpoint_ps, bool barrier) {
  if (endpoint_ps < 0) invalid("a negative endpoint delay");
  if (schedule >= schedules_.size()) invalid("a phase of a schedule that does not exist");
  kinds_.push_back({schedules_[schedule], queue, together, endpoint_ps, barrier});
  return next_id(kinds_) - 1;
}

const CausalKey& PhaseKinds::causal_key(PhaseKindId kind) const {
  if (kind >= kinds_.size()) invalid("a phase that does not exist");
  return causal_keys_.times(kinds_[kind].causal_key);
}

}  // namespace astra::engine
