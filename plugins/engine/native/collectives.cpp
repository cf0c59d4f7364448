#include "collectives.hpp"

#include <set>
#include <string>
#include <utility>

#include "errors.hpp"

namespace astra::engine {

void Collectives::add_program(const std::vector<Task>& kinds, std::uint32_t npus) {
  std::set<std::uint32_t> groups;
  for (const Task& kind : kinds) {
    if (kind.kind == TaskKind::collective && kind.group >= 0) groups.insert(narrow<std::uint32_t>(kind.group));
  }
  for (const std::uint32_t group : groups) ++programs_of_[group];
  issuers_.push_back({npus, {}});
}

std::vector<std::uint64_t> Collectives::uses() const {
  std::vector<std::uint64_t> counts;
  for (const CollectivePlan& plan : plans_) counts.push_back(plan.uses);
  return counts;
}

std::uint32_t Collectives::issue(TaskId task, ProgramId program, const Task& kind) {
  const CollectiveId id = issued_as(program, task.number, kind);
  CollectiveRun& collective = collectives_[id];
  const std::vector<Chunk>& chunks = plans_[collective.plan].chunks;
  const std::uint32_t count = next_id(chunks);
  --collective.npus_left;
  collective.open += count;
  if (count == 0) free_if_done(id);
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
    chunks_.start(chunks_.make(task, {id, chunk, &chunks[chunk], collective.phases.data(), collective.number}));
  }
  return count;
}

void Collectives::chunk_ended(CollectiveId id) {
  --collectives_[id].open;
  free_if_done(id);
}

CollectiveId Collectives::issued_as(ProgramId program, std::uint32_t task, const Task& kind) {
  auto entry = issuers_[program].issued.find(task);
  if (entry == issuers_[program].issued.end()) {
    const Issued issued{share(program, task, kind), issuers_[program].npus};
    entry = issuers_[program].issued.emplace(task, issued).first;
  }
  const CollectiveId id = entry->second.collective;
  if (--entry->second.npus_left == 0) issuers_[program].issued.erase(entry);
  return id;
}

CollectiveId Collectives::share(ProgramId program, std::uint32_t task, const Task& kind) {
  CollectiveId id;
  if (kind.group < 0) {
    id = make(program, task, kind);
  } else {
    const auto group = narrow<std::uint32_t>(kind.group);
    const std::uint32_t ordinal = ordinals_[pair_key(program, group)]++;
    auto shared = shared_.find(pair_key(group, ordinal));
    if (shared == shared_.end()) {
      id = make(program, task, kind);
      collectives_[id].programs_left = programs_of_[group];
      shared = shared_.emplace(pair_key(group, ordinal), id).first;
    }
    id = shared->second;
    CollectiveRun& collective = collectives_[id];
    if (collective.first_number != kind.collective) throw UnlikeCollectives({program, task}, collective.first, ordinal + 1);
    if (--collective.programs_left == 0) shared_.erase(shared);
  }
  collectives_[id].npus_left += issuers_[program].npus;
  return id;
}

CollectiveId Collectives::make(ProgramId program, std::uint32_t task, const Task& kind) {
  CollectiveRun collective;
  collective.plan = plan(program, task, kind);
  collective.number = count_++;
  collective.first = {program, task};
  collective.first_number = kind.collective;
  CollectivePlan& own = plans_[collective.plan];
  for (const PhaseKindId phase : own.phases) collective.phases.push_back(phases_.start_phase(phase));
  ++own.uses;
  return collectives_.add(std::move(collective));
}

PlanId Collectives::plan(ProgramId program, std::uint32_t task, const Task& kind) {
  if (kind.repeats) {
    const auto known = repeated_.find(kind.collective);
    if (known != repeated_.end()) return known->second;
  }
  CollectivePlan plan;
  plan.chunks = host_.issue(program, task, events_.now());
  plan.repeats = kind.repeats;
  number_steps(plan);
  plans_.push_back(std::move(plan));
  const PlanId id = next_id(plans_) - 1;
  if (kind.repeats) repeated_.emplace(kind.collective, id);
  return id;
}

void Collectives::number_steps(CollectivePlan& plan) {
  for (Chunk& chunk : plan.chunks) {
    if (chunk.empty()) invalid("a chunk without steps");
    for (PhaseStep& step : chunk) {
      check_step(step);
      step.number = step_count_++;
      if (step.phase < 0) continue;
      step.phase_place = next_id(plan.phases);
      plan.phases.push_back(narrow<PhaseKindId>(step.phase));
    }
  }
}

void Collectives::check_step(const PhaseStep& step) const {
  if (step.queue >= narrow<std::int64_t>(chunks_.queues())) invalid("a step in queue " + std::to_string(step.queue));
  if (step.phase >= narrow<std::int64_t>(phase_kinds_.size())) invalid("a step of phase " + std::to_string(step.phase));
  if (step.delay < 0) invalid("a step with a negative delay");
  if (step.age < -1 || step.age > 1) invalid("a step with an age of " + std::to_string(step.age));
}

void Collectives::free_if_done(CollectiveId id) {
  CollectiveRun& collective = collectives_[id];
  if (collective.open || collective.npus_left || collective.programs_left) return;
  CollectivePlan& plan = plans_[collective.plan];
  if (!plan.repeats) std::vector<Chunk>().swap(plan.chunks);
  collective.phases.clear();
  collectives_.release(id);
}

}  // namespace astra::engine
