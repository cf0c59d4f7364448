#include "chunks.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "errors.hpp"

namespace astra::engine {

Chunks::Chunks(Events& events, Phases& phases, Agreements& agreements, Host& host, std::uint32_t npus, ChunkListener& listener)
    : events_(events), phases_(phases), agreements_(agreements), host_(host), listener_(listener), npus_(npus), records_(npus) {}

void Chunks::add_queues(const std::vector<QueuePlan>& plans) {
  for (const QueuePlan& plan : plans) queues_.push_back(make_queue(host_, next_id(queues_), plan, npus_));
}

// -- answers ----------------------------------------------------------------------------------------------------------

std::vector<PhaseStepRecord> Chunks::records(NpuId npu) const {
  std::vector<PhaseStepRecord> records = records_[npu];
  for (const StepRun& run : steps_) {
    if (run.runs_phase() && run.task.npu == npu) records[run.record + run.place].measured = phases_.measured(run.phase(), npu);
  }
  return records;
}

std::vector<RankState> Chunks::blocked_ranks() const {
  std::vector<RankState> states;
  for (const StepRun& run : steps_) {
    if (!run.runs_phase()) continue;
    RankState& state = states.emplace_back();
    state.task = run.task.number;
    state.chunk = run.of.chunk;
    state.step = run.place;
    state.npu = run.task.npu;
    phases_.fill(state, run.phase(), state.npu);
  }
  std::sort(states.begin(), states.end(), [](const RankState& a, const RankState& b) {
    return std::tie(a.task, a.chunk, a.step, a.npu) < std::tie(b.task, b.chunk, b.step, b.npu);
  });
  return states;
}

Label Chunks::label(LinkKind kind, StepId step) const {
  if (step == kNone) return {kind};
  Label label = labels_[step];
  label.kind = kind;
  return label;
}

// -- running ----------------------------------------------------------------------------------------------------------

StepId Chunks::make(TaskId task, const ChunkOf& of) {
  StepRun run{task, of};
  if (std::vector<PhaseStepRecord>* records = records_.find(task.npu)) {
    run.record = next_id(*records);
    for (const PhaseStep& step : *of.steps) records->push_back({task.number, step.number});
  }
  return steps_.add(run);
}

void Chunks::start(StepId id) {
  const StepRun& run = steps_[id];
  if (PhaseStepRecord* record = record_of(run)) record->queued_at = events_.now();
  const std::int32_t queue = run.step().queue;
  if (queue < 0) return begin(id);
  enter(id);
  pump(steps_[id].task.npu, queue);
}

void Chunks::finish(StepId id) {
  StepRun& run = steps_[id];
  const NpuId npu = run.task.npu;
  const std::int32_t left = run.step().queue;
  PhaseStepRecord* record = record_of(run);
  if (record) record->ended_at = events_.now();
  if (run.step().phase >= 0) {
    const Measured measured = phases_.end(run.phase(), npu);
    if (record) record->measured = measured;
  }
  if (left >= 0) at(queues_, left)->leave(npu, id);
  run.started = false;
  std::int32_t entered = -1;
  if (run.is_last()) {
    end(id);
  } else {
    ++run.place;
    entered = run.step().queue;
    if (record) record[1].queued_at = events_.now();
    if (entered < 0) {
      begin(id);
    } else {
      enter(id);
    }
  }
  // The queue that a chunk leaves goes on before the one that it enters.
  if (left >= 0) pump(npu, left);
  if (entered >= 0) pump(npu, entered);
}

PhaseStepRecord* Chunks::record_of(const StepRun& run) {
  return run.record == kNone ? nullptr : &(*records_.find(run.task.npu))[run.record + run.place];
}

void Chunks::enter(StepId id) {
  const StepRun& run = steps_[id];
  const PhaseStep& step = run.step();
  const Job job{step.job.job_class, step.job.priority + step.age * run.of.number};
  const bool agrees = agreements_.of_queue(run.task.npu, narrow<QueueId>(step.queue)) != nullptr;
  at(queues_, step.queue)->enter(run.task.npu, id, agrees ? run.key() : kNoKey, job);
}

void Chunks::pump(NpuId npu, std::int32_t queue) {
  Queue& own = *at(queues_, queue);
  Agreement* const agreement = agreements_.of_queue(npu, narrow<QueueId>(queue));
  if (!agreement) {
    for (StepId id = own.start(npu, kNoKey); id != kNone; id = own.start(npu, kNoKey)) begin(id);
    return;
  }
  for (StepId id = own.start(npu, agreement->next(npu)); id != kNone; id = own.start(npu, agreement->next(npu))) {
    agreement->take(npu, steps_[id].key());
    begin(id);
  }
}

void Chunks::begin(StepId id) {
  StepRun& run = steps_[id];
  run.started = true;
  if (events_.causes()) keep_label(id, run);
  if (PhaseStepRecord* record = record_of(run)) record->started_at = events_.now();
  const std::uint32_t order = events_.next_end_order(run.task.npu);
  if (run.step().phase < 0) return begin_timed(id, run, order);
  phases_.begin(run.phase(), run.task.npu, id, order);
}

void Chunks::keep_label(StepId id, const StepRun& run) {
  if (labels_.size() <= id) labels_.resize(id + std::size_t{1});
  labels_[id] = {LinkKind::step, run.task.number, run.step().number};
}

void Chunks::begin_timed(StepId id, const StepRun& run, std::uint32_t order) {
  const PhaseStep& step = run.step();
  const Time end = events_.after(step.delay);
  CausalKey times;
  times.fill(-1);
  times[0] = events_.now();
  const std::size_t count = std::min(step.causal_key.size(), kCausalKeyLength);
  for (std::size_t place = 0; place < count; ++place) times[place] = end - step.causal_key[place];
  const CausalKeys::Held causal_key(events_.causal_keys(), events_.causal_keys().make(times));
  events_.push_end(end, run.task.npu, StepEnd{id}, causal_key, order);
}

void Chunks::end(StepId id) {
  StepRun& run = steps_[id];
  run.used = false;
  const StepRun ended = run;
  steps_.release(id);
  listener_.chunk_ended(ended.task, ended.of.collective);
}

}  // namespace astra::engine
