// The record of a run: what the parts of the engine have noted so far, and what they have not ended.
#pragma once

#include <cstdint>
#include <vector>

#include "chunks.hpp"
#include "collectives.hpp"
#include "events.hpp"
#include "interface.hpp"
#include "phase_kinds.hpp"
#include "point_to_point.hpp"
#include "tasks.hpp"

namespace astra::engine {

// Results about one NPU raise std::invalid_argument if it is not observed.
class Record {
 public:
  Record(Events& events, const PhaseKinds& phase_kinds, Chunks& chunks, const Collectives& collectives, const PointToPoint& point_to_point,
         Tasks& tasks)
      : events_(events),
        phase_kinds_(phase_kinds),
        chunks_(chunks),
        collectives_(collectives),
        point_to_point_(point_to_point),
        tasks_(tasks) {}

  // Keep which event brings about which, from now on; with `messages` all of these, too.
  void keep_causes(bool messages) { events_.keep_causes(messages); }
  // Keep the moments of an NPU, which has no program yet. Raises std::invalid_argument.
  void observe(NpuId npu);

  const TaskTimes& times(NpuId npu) const { return tasks_.times(observed(npu)); }
  std::vector<SendRecord> sends(NpuId npu) const { return tasks_.sends(observed(npu)); }
  std::vector<Time> ended_at() const { return tasks_.ended_at(); }
  std::vector<PhaseStepRecord> phase_steps(NpuId npu) const { return chunks_.records(observed(npu)); }
  std::vector<std::uint64_t> uses() const { return collectives_.uses(); }
  const CausalKey& causal_key(PhaseKindId phase) const { return phase_kinds_.causal_key(phase); }
  // The links that lead to the last event; none if causes are not kept.
  std::vector<Link> critical_path() const { return events_.causes() ? events_.causes()->path() : std::vector<Link>(); }
  // The messages that have arrived; none if they are not kept.
  std::vector<Link> carried() const { return events_.causes() ? events_.causes()->messages() : std::vector<Link>(); }
  std::vector<Unfinished> unfinished() const { return tasks_.unfinished(); }
  std::vector<Unreceived> unreceived() const { return point_to_point_.unreceived(); }
  std::vector<RankState> blocked_ranks() const { return chunks_.blocked_ranks(); }

 private:
  NpuId observed(NpuId npu) const;

  Events& events_;
  const PhaseKinds& phase_kinds_;
  Chunks& chunks_;
  const Collectives& collectives_;
  const PointToPoint& point_to_point_;
  Tasks& tasks_;
};

}  // namespace astra::engine
