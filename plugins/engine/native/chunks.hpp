// Chunks of collectives on an NPU, and the queues of its dimensions through which they pass.
//
// A chunk passes through its phase steps one after another. A step may be in a queue of the NPU: it takes the place that the queue's order
// gives it, and begins when it is among the first slots. It is a phase, which the ranks run message by message, or the time that the phase
// takes if that is known before the run. When the last step of a chunk has ended, its collective is notified: the only call upwards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agreement.hpp"
#include "events.hpp"
#include "host.hpp"
#include "interface.hpp"
#include "phases.hpp"
#include "queues.hpp"

namespace astra::engine {

// Called when a chunk of a collective has ended on the NPU of `task`.
class ChunkListener {
 public:
  virtual ~ChunkListener() = default;
  virtual void chunk_ended(TaskId task, CollectiveId collective) = 0;
};

// The chunks that a collective becomes, by which all its NPUs go: the steps of each, the phases of these, and its number among all.
struct ChunkOf {
  CollectiveId collective;
  std::uint32_t chunk;
  const Chunk* steps;
  const PhaseId* phases;
  std::int64_t number;
};

class Chunks {
 public:
  Chunks(Events& events, Phases& phases, Agreements& agreements, Host& host, std::uint32_t npus, ChunkListener& listener);

  // Give every NPU queues. Raises std::invalid_argument.
  void add_queues(const std::vector<QueuePlan>& plans);
  bool has_queues() const { return !queues_.empty(); }
  std::size_t queues() const { return queues_.size(); }
  void observe(NpuId npu) { records_.add(npu); }

  // The phase steps of chunks on an observed NPU, in the order in which they were issued.
  std::vector<PhaseStepRecord> records(NpuId npu) const;
  // The ranks of phases that have begun and not ended, by task, chunk, step and NPU.
  std::vector<RankState> blocked_ranks() const;

  // The event of a chunk's step on its NPU; kNone: it has not begun.
  Label label(LinkKind kind, StepId step) const;

  // A chunk on the NPU of a task, before its first step.
  StepId make(TaskId task, const ChunkOf& of);
  // Make the step of a chunk ready.
  void start(StepId id);
  // A step has ended: go on to the next of its chunk, and let others have its slot.
  void finish(StepId id);

 private:
  // A chunk on an NPU, in its step at `place`.
  struct StepRun {
    TaskId task;
    ChunkOf of;
    std::uint32_t place = 0;
    std::uint32_t record = kNone;  // of the first step, if the NPU is observed
    bool started = false;
    bool used = true;

    const PhaseStep& step() const { return (*of.steps)[place]; }
    PhaseId phase() const { return of.phases[step().phase_place]; }
    bool is_last() const { return place + 1 == of.steps->size(); }
    // The key of its chunk on all NPUs of the program; a chunk waits in one queue at a time.
    Key key() const { return pair_key(task.number, of.chunk); }
    bool runs_phase() const { return used && started && step().phase >= 0; }
  };

  // The record of a step's events; nullptr if the NPU is not observed.
  PhaseStepRecord* record_of(const StepRun& run);
  void enter(StepId id);
  // Begin the steps that have a slot in a queue, in the order that NPUs have agreed on where they do.
  void pump(NpuId npu, std::int32_t queue);
  void begin(StepId id);
  void keep_label(StepId id, const StepRun& run);
  // A step begins that takes a time known before the run.
  void begin_timed(StepId id, const StepRun& run, std::uint32_t order);
  void end(StepId id);

  Events& events_;
  Phases& phases_;
  Agreements& agreements_;
  Host& host_;
  ChunkListener& listener_;
  std::uint32_t npus_;
  std::vector<std::unique_ptr<Queue>> queues_;
  Pool<StepRun> steps_;
  std::vector<Label> labels_;  // of steps that have begun, if causes are kept: close together, because every event asks for one
  Observed<std::vector<PhaseStepRecord>> records_;
};

}  // namespace astra::engine
