// Collectives: their chunks, planned when the first NPU issues them.
//
// The NPUs that run one program share the plans of its collectives. Programs may share the collectives of a group: the n-th that one issues
// there is the n-th of the others. Collectives that repeat become the same chunks, which are planned once. A collective is forgotten when
// all have issued it and its chunks have ended.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "chunks.hpp"
#include "events.hpp"
#include "host.hpp"
#include "interface.hpp"
#include "phase_kinds.hpp"
#include "phases.hpp"

namespace astra::engine {

class Collectives {
 public:
  Collectives(Events& events, const PhaseKinds& phase_kinds, Phases& phases, Chunks& chunks, Host& host)
      : events_(events), phase_kinds_(phase_kinds), phases_(phases), chunks_(chunks), host_(host) {}

  // Count a program, run by `npus` NPUs, among those that share the collectives of its groups.
  void add_program(const std::vector<Task>& kinds, std::uint32_t npus);
  // How many collectives became each plan.
  std::vector<std::uint64_t> uses() const;
  // Start the chunks of a collective on an NPU, whose program and task it is. Returns how many those are.
  std::uint32_t issue(TaskId task, ProgramId program, const Task& kind);
  // A chunk of a collective has ended on an NPU.
  void chunk_ended(CollectiveId collective);

 private:
  // The chunks of a collective, or of all that repeat it.
  struct CollectivePlan {
    std::vector<Chunk> chunks;
    std::vector<PhaseKindId> phases;  // of all its steps that are phases
    std::uint64_t uses = 0;           // collectives that became its chunks
    bool repeats = false;
  };

  // A collective that was issued, as the `number`-th: its plan, its phases, who issued it first, and who has not.
  struct CollectiveRun {
    PlanId plan = 0;
    std::int64_t number = 0;
    std::vector<PhaseId> phases;  // those of its plan
    UnlikeCollectives::Task first{};
    std::int32_t first_number = -1;   // of the task that issued it first
    std::uint32_t programs_left = 0;  // programs that have not issued it
    std::uint64_t npus_left = 0;      // NPUs of the others that have not
    std::uint64_t open = 0;           // chunks under way
  };

  // A collective as a program has issued it, until its last NPU has.
  struct Issued {
    CollectiveId collective;
    std::uint32_t npus_left;
  };

  // A program: the number of its NPUs, and the collectives they have issued, by task.
  struct Issuer {
    std::uint32_t npus;
    std::unordered_map<std::uint32_t, Issued> issued;
  };

  // The plan of a collective from when the first NPU of its program issued it, which may be this one.
  CollectiveId issued_as(ProgramId program, std::uint32_t task, const Task& kind);
  // The plan of a collective from when the first program issued it, which may be this one.
  CollectiveId share(ProgramId program, std::uint32_t task, const Task& kind);
  // A collective that is issued now.
  CollectiveId make(ProgramId program, std::uint32_t task, const Task& kind);
  // The plan of a collective; one that repeats is planned once.
  PlanId plan(ProgramId program, std::uint32_t task, const Task& kind);
  // Number the steps of a plan, and list its phases. Raises std::invalid_argument for an invalid plan.
  void number_steps(CollectivePlan& plan);
  void check_step(const PhaseStep& step) const;
  void free_if_done(CollectiveId id);

  Events& events_;
  const PhaseKinds& phase_kinds_;
  Phases& phases_;
  Chunks& chunks_;
  Host& host_;
  std::vector<CollectivePlan> plans_;
  std::unordered_map<std::int32_t, PlanId> repeated_;  // plans of collectives that repeat, by their number
  Pool<CollectiveRun> collectives_;
  std::int64_t count_ = 0;
  std::uint32_t step_count_ = 0;
  std::vector<Issuer> issuers_;                                   // of each program
  std::unordered_map<std::uint32_t, std::uint32_t> programs_of_;  // by group: programs that share its collectives
  std::unordered_map<std::uint64_t, std::uint32_t> ordinals_;     // by program and group: collectives issued
  std::unordered_map<std::uint64_t, CollectiveId> shared_;        // by group and ordinal
};

}  // namespace astra::engine
