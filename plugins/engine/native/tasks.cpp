#include "tasks.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "errors.hpp"

namespace astra::engine {
namespace {

bool moves_message(const Task& kind) { return kind.kind == TaskKind::send || kind.kind == TaskKind::receive; }

bool takes_time(const Task& kind) { return kind.kind != TaskKind::join && kind.kind != TaskKind::collective; }

void check_kind(const Task& kind) {
  if (kind.delay < 0 || kind.bytes < 0) invalid("a task with a negative delay or size");
  if (kind.repeats && kind.collective < 0) invalid("a task that repeats and has no number");
}

}  // namespace

// -- programs ---------------------------------------------------------------------------------------------------------

Program::Program(ProgramColumns columns, ProgramId number) : number_(number) {
  check_columns(columns);
  for (const Task& kind : columns.kinds) has_units_ |= kind.unit >= 0;
  set_ranks(columns.priorities);
  link(columns);
  kinds_ = std::move(columns.kinds);
  kind_of_ = std::move(columns.kind_of);
  times_ = std::move(columns.times);
}

void Program::check_columns(const ProgramColumns& columns) const {
  const std::size_t count = columns.kind_of.size();
  for (const Task& kind : columns.kinds) check_kind(kind);
  if ((!columns.times.empty() && columns.times.size() != count) || (!columns.priorities.empty() && columns.priorities.size() != count) ||
      count >= kNone || columns.after_end.size() != count || columns.after.size() != (count ? columns.after_end.back() : 0)) {
    invalid("a program with broken columns");
  }
  std::uint64_t begin = 0;
  for (std::uint32_t task = 0; task < count; ++task) {
    const std::uint64_t end = columns.after_end[task];
    if (columns.kind_of[task] >= columns.kinds.size() || end < begin || end > columns.after.size())
      invalid("a program with broken columns");
    for (; begin < end; ++begin) {
      const std::uint32_t other = columns.after[begin];
      if (other >= task) invalid("task " + std::to_string(task) + " waits for task " + std::to_string(other) + "; expected earlier ones");
    }
  }
}

void Program::set_ranks(const std::vector<std::uint32_t>& priorities) {
  if (std::is_sorted(priorities.begin(), priorities.end())) return;
  by_rank_.resize(priorities.size());
  std::iota(by_rank_.begin(), by_rank_.end(), 0u);
  std::stable_sort(by_rank_.begin(), by_rank_.end(), [&](std::uint32_t a, std::uint32_t b) { return priorities[a] < priorities[b]; });
  ranks_.resize(priorities.size());
  for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) ranks_[by_rank_[rank]] = rank;
}

void Program::link(const ProgramColumns& columns) {
  const std::uint32_t count = next_id(columns.kind_of);
  std::vector<std::uint32_t> place(count + std::size_t{1}, 0);  // of the next successor of each task
  for (const std::uint32_t other : columns.after) ++place[other + std::size_t{1}];
  for (std::uint32_t task = 0; task < count; ++task) place[task + std::size_t{1}] += place[task];
  first_successor_ = place;
  successors_.resize(columns.after.size());
  waits_.resize(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::uint32_t task = at_rank(rank);
    const std::uint64_t begin = task ? columns.after_end[task - 1] : 0, end = columns.after_end[task];
    waits_[task] = narrow<std::int32_t>(end - begin);
    if (begin == end) first_.push_back(task);
    for (std::uint64_t at = begin; at < end; ++at) successors_[place[columns.after[at]]++] = task;
  }
}

// -- units ------------------------------------------------------------------------------------------------------------

void Units::add(const Task& kind, std::uint32_t rank) {
  const std::uint32_t number = kind.unit < 0 ? kUnits : narrow<std::uint32_t>(kind.unit);
  if (kind.kind == TaskKind::collective && number < kUnits && agreements_->of_unit(npu_, number)) {
    agreed_ |= 1u << number;
    collectives_[number].insert(rank);
    return;
  }
  std::vector<std::uint32_t>& heap = ready_[number];
  waiting_ |= 1u << number;
  heap.push_back(rank);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

bool Units::next(std::uint32_t& rank) {
  std::uint32_t best = kNone;
  for (std::uint32_t free = waiting_ & ~busy_; free; free &= free - 1) {
    const std::uint32_t unit = narrow<std::uint32_t>(std::countr_zero(free));
    if (best == kNone || ready_[unit].front() < ready_[best].front()) best = unit;
  }
  rank = best == kNone ? kNone : ready_[best].front();
  for (std::uint32_t free = agreed_ & ~busy_; free; free &= free - 1) {
    const std::uint32_t unit = narrow<std::uint32_t>(std::countr_zero(free));
    const std::uint32_t collective = next_collective(unit);
    if (collective >= rank) continue;
    rank = collective;
    best = unit;
  }
  if (best == kNone) return false;
  if (agreed_ >> best & 1 && collectives_[best].erase(rank)) {
    agreements_->of_unit(npu_, best)->take(npu_, pair_key(rank, 0));
    busy_ |= 1u << best;
    return true;
  }
  std::vector<std::uint32_t>& heap = ready_[best];
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  heap.pop_back();
  if (heap.empty()) waiting_ &= ~(1u << best);
  if (best < kUnits) busy_ |= 1u << best;
  return true;
}

std::vector<std::uint32_t> Units::ready() const {
  std::vector<std::uint32_t> ranks;
  for (const std::vector<std::uint32_t>& heap : ready_) ranks.insert(ranks.end(), heap.begin(), heap.end());
  for (const std::set<std::uint32_t>& collectives : collectives_) ranks.insert(ranks.end(), collectives.begin(), collectives.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::uint32_t Units::next_collective(std::uint32_t unit) const {
  const std::set<std::uint32_t>& ready = collectives_[unit];
  const Key wanted = agreements_->of_unit(npu_, unit)->next(npu_);
  if (wanted == kNoKey) return ready.empty() ? kNone : *ready.begin();
  const auto rank = narrow<std::uint32_t>(wanted >> 32);
  return ready.contains(rank) ? rank : kNone;
}

// -- building ---------------------------------------------------------------------------------------------------------

Tasks::Tasks(Events& events, TaskDurations& durations, Collectives& collectives, PointToPoint& point_to_point, Agreements& agreements,
             std::uint32_t npus)
    : events_(events),
      durations_(durations),
      collectives_(collectives),
      point_to_point_(point_to_point),
      agreements_(agreements),
      npus_(npus),
      records_(npus) {}

void Tasks::add_program(ProgramColumns columns, const std::vector<std::int64_t>& npus, std::int64_t agreement) {
  if (started_) invalid("programs are given before the run");
  Program program(std::move(columns), next_id(programs_));
  for (const std::int64_t npu : npus) {
    if (npu < 0 || npu >= narrow<std::int64_t>(npus_.size())) invalid("a program is given to NPU " + std::to_string(npu));
    give(program, narrow<NpuId>(npu));
  }
  collectives_.add_program(program.kinds(), next_id(npus));
  if (agreement >= 0) agreements_.join(narrow<std::uint32_t>(agreement), npus);
  programs_.push_back(std::move(program));
}

void Tasks::give(const Program& program, NpuId npu) {
  Npu& own = npus_[npu];
  if (own.program != kNone) invalid("NPU " + std::to_string(npu) + " has a program already");
  for (const Task& kind : program.kinds()) {
    if (!moves_message(kind)) continue;
    const NpuId peer = point_to_point_.peer(npu, kind);
    if (peer == npu || peer >= npus_.size()) invalid("a message to or from NPU " + std::to_string(peer));
  }
  own.program = program.number();
  if (program.has_units()) {
    own.units = next_id(units_);
    units_.emplace_back(npu, agreements_);
  }
  own.first_task = tasks_.size();
  for (std::uint32_t task = 0; task < program.size(); ++task) tasks_.push_back({program.waits(task), kWaiting});
  if (Record* record = records_.find(npu)) {
    record->times.ready.assign(program.size(), -1);
    record->times.ended.assign(program.size(), -1);
  }
}

void Tasks::observe(NpuId npu) {
  if (npu >= npus_.size() || npus_[npu].program != kNone) invalid("an NPU is observed from before it has its program");
  records_.add(npu);
}

// -- answers ----------------------------------------------------------------------------------------------------------

std::vector<SendRecord> Tasks::sends(NpuId npu) const {
  std::vector<SendRecord> sends = records_[npu].sends;
  std::sort(sends.begin(), sends.end(), [](const SendRecord& a, const SendRecord& b) { return a.task < b.task; });
  return sends;
}

std::vector<Time> Tasks::ended_at() const {
  std::vector<Time> times;
  for (const Npu& npu : npus_) times.push_back(npu.ended_at);
  return times;
}

std::vector<Unfinished> Tasks::unfinished() const {
  std::vector<Unfinished> result;
  for (NpuId npu = 0; npu < npus_.size(); ++npu) {
    if (npus_[npu].program == kNone) continue;
    const Program& program = program_of(npu);
    const std::vector<std::uint32_t> waiting = program.has_units() ? units_[npus_[npu].units].ready() : std::vector<std::uint32_t>();
    for (std::uint32_t task = 0; task < program.size(); ++task) {
      const State state = tasks_[npus_[npu].first_task + task].state;
      const bool begun = state == kReady && !std::binary_search(waiting.begin(), waiting.end(), program.rank(task));
      if (state != kEnded) result.push_back({npu, task, begun});
    }
  }
  return result;
}

// -- running ----------------------------------------------------------------------------------------------------------

void Tasks::start_all() {
  if (std::exchange(started_, true)) return;
  for (NpuId npu = 0; npu < npus_.size(); ++npu) {
    if (npus_[npu].program == kNone) continue;
    const Program& program = program_of(npu);
    for (const std::uint32_t task : program.first()) {
      if (program.has_units()) {
        add_ready({npu, task});
      } else {
        start({npu, task});
      }
    }
    if (program.has_units()) pump_units(npu);
  }
}

void Tasks::finish(TaskId task) {
  end(task);
  const Program& program = program_of(task.npu);
  program.each_successor(task.number, [&](std::uint32_t number) {
    const TaskId successor{task.npu, number};
    if (!release(successor)) return;
    if (program.has_units()) {
      add_ready(successor);
    } else {
      start(successor);
    }
  });
  if (program.has_units()) pump_units(task.npu);
}

void Tasks::chunk_ended(TaskId task) {
  if (--run_of(task).left == 0) begin(task);
}

void Tasks::pump_units(NpuId npu) {
  const Program& program = program_of(npu);
  std::uint32_t rank = 0;
  while (units_of(npu).next(rank)) {
    const std::uint32_t number = program.at_rank(rank);
    if (begin_ready({npu, number})) continue;
    program.each_successor(number, [&](std::uint32_t successor) {
      if (release({npu, successor})) add_ready({npu, successor});
    });
  }
}

void Tasks::add_ready(TaskId task) {
  set_ready(task);
  const Program& program = program_of(task.npu);
  units_of(task.npu).add(program.task(task.number), program.rank(task.number));
}

void Tasks::start(TaskId first) {
  const NpuId npu = first.npu;
  std::vector<std::uint32_t> stack{first.number};
  while (!stack.empty()) {
    const TaskId task{npu, stack.back()};
    stack.pop_back();
    set_ready(task);
    if (begin_ready(task)) continue;
    const auto retained = narrow<std::ptrdiff_t>(stack.size());
    program_of(npu).each_successor(task.number, [&](std::uint32_t successor) {
      if (release({npu, successor})) stack.push_back(successor);
    });
    std::reverse(stack.begin() + retained, stack.end());
  }
}

bool Tasks::begin_ready(TaskId task) {
  const Program& program = program_of(task.npu);
  const Task& kind = program.task(task.number);
  if (takes_time(kind)) {
    begin(task);
    return true;
  }
  if (kind.kind == TaskKind::collective) {
    const std::uint32_t chunks = collectives_.issue(task, program.number(), kind);
    run_of(task).left = narrow<std::int32_t>(chunks);
    if (chunks > 0) return true;
  }
  end(task);
  return false;
}

void Tasks::begin(TaskId task) {
  const Program& program = program_of(task.npu);
  const Task& kind = program.task(task.number);
  const std::uint32_t order = events_.next_end_order(task.npu);
  if (moves_message(kind)) {
    Record* record = records_.find(task.npu);
    if (record && kind.kind == TaskKind::send) record->sends.push_back({task.number, events_.now()});
    return point_to_point_.begin(task, kind, order);
  }
  const Time end = durations_.end_of(task, kind.kind, program.delay(task.number), events_.now());
  const CausalKeys::Held causal_key(events_.causal_keys(), events_.causal_keys().make(events_.now()));
  events_.push_end(end, task.npu, TaskEnd{task}, causal_key, order);
}

void Tasks::end(TaskId task) {
  run_of(task).state = kEnded;
  ++ended_;
  npus_[task.npu].ended_at = events_.now();
  const std::int8_t unit = program_of(task.npu).task(task.number).unit;
  if (unit >= 0) units_of(task.npu).release(unit);
  if (Record* record = records_.find(task.npu)) record->times.ended[task.number] = events_.now();
}

void Tasks::set_ready(TaskId task) {
  run_of(task).state = kReady;
  if (Record* record = records_.find(task.npu)) record->times.ready[task.number] = events_.now();
}

}  // namespace astra::engine
