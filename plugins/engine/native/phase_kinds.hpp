// Kinds of phases: what is said of a phase before the run, however often it happens then.
//
// A phase belongs to groups of NPUs of one size. Its schedule says what their ranks do, and its kind how it ends, how long an endpoint
// needs for a token of it, and in which queue its messages are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "causal_keys.hpp"
#include "schedule.hpp"

namespace astra::engine {

// The places of NPUs in a list: a table from the first NPU to the last if they are close together, else the NPUs in order. So groups
// take memory by their members, not each by all NPUs.
class Places {
 public:
  explicit Places(const std::vector<NpuId>& members);

  // The place of an NPU, or kNone.
  std::uint32_t operator[](NpuId npu) const {
    if (npu < first_ || npu > last_) return kNone;
    if (!table_.empty()) return table_[npu - first_];
    const auto entry = std::lower_bound(ordered_.begin(), ordered_.end(), std::pair<NpuId, std::uint32_t>{npu, 0});
    return entry != ordered_.end() && entry->first == npu ? entry->second : kNone;
  }

 private:
  NpuId first_ = 0, last_ = 0;
  std::vector<std::uint32_t> table_;
  std::vector<std::pair<NpuId, std::uint32_t>> ordered_;
};

// Groups of one size that run phases together. A rank is a place in `members`; with `loop_back` the first represents all.
struct Groups {
  std::vector<NpuId> members;  // group after group
  Places place_of;             // of an NPU in `members`
  std::uint32_t size = 0;
  bool loop_back = false;

  std::uint32_t ranks() const { return loop_back ? 1 : narrow<std::uint32_t>(members.size()); }
  // The rank at a place, in its group.
  std::uint32_t rank_of(std::uint32_t place) const { return place < size ? place : place % size; }
};

// A schedule for groups.
struct GroupSchedule {
  RankPrograms programs;
  ScheduleId number;
  const Groups& groups;
};

// A phase, as often as it happens. `causal_key` is the one with which it ended last.
struct PhaseKind {
  const GroupSchedule& schedule;
  std::int32_t queue;
  bool together;
  Time endpoint_ps;
  bool barrier;
  CausalKeyId causal_key = 0;
};

// The groups, schedules and kinds of phases, by number. Raises std::invalid_argument for invalid input.
class PhaseKinds {
 public:
  // `has_bus`: endpoints share a bus, so that programs have to say what it carries.
  PhaseKinds(const CausalKeys& causal_keys, std::uint32_t npus, bool has_bus) : causal_keys_(causal_keys), npus_(npus), has_bus_(has_bus) {}

  PhaseKind& operator[](PhaseKindId number) { return kinds_[number]; }
  std::size_t size() const { return kinds_.size(); }

  GroupsId add_groups(std::vector<NpuId> members, std::uint32_t size, bool loop_back);
  ScheduleId add_schedule(RankPrograms programs, GroupsId groups);
  PhaseKindId add_phase(ScheduleId schedule, std::int32_t queue, bool together, Time endpoint_ps, bool barrier);
  // The latest causal key of the ranks with which a phase ended last; empty if they end each by itself.
  const CausalKey& causal_key(PhaseKindId kind) const;

 private:
  const CausalKeys& causal_keys_;
  std::uint32_t npus_;
  bool has_bus_;
  std::deque<Groups> groups_;  // references stay valid
  std::deque<GroupSchedule> schedules_;
  std::deque<PhaseKind> kinds_;
};

}  // namespace astra::engine
