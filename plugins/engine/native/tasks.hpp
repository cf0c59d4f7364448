// The tasks of NPUs: their programs, who waits for whom, and the units that they need.
//
// A task is ready when its dependencies have ended. If its program uses units, an NPU does one task of a unit at a time: of those that
// are ready the one with the lowest priority, which is its number unless the program has other priorities. The action of a task when it
// begins depends on its kind: it takes its delay or a time that is asked for, on its NPU's processor where it computes, uses the port of
// its NPU's memory for so long, sends or receives a message, or issues the chunks of a collective, and ends its delay after the last of
// them.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "agreement.hpp"
#include "collectives.hpp"
#include "durations.hpp"
#include "events.hpp"
#include "interface.hpp"
#include "point_to_point.hpp"

namespace astra::engine {

// A program: each task is like one of `kinds`.
class Program {
 public:
  // Raises std::invalid_argument for broken columns, and where a task waits for one that is not earlier.
  Program(ProgramColumns columns, ProgramId number);

  ProgramId number() const { return number_; }
  bool has_units() const { return has_units_; }  // whether its tasks need units
  std::uint32_t size() const { return next_id(kind_of_); }
  const std::vector<Task>& kinds() const { return kinds_; }
  const Task& task(std::uint32_t number) const { return kinds_[kind_of_[number]]; }
  Time delay(std::uint32_t number) const { return times_.empty() || times_[number] < 0 ? task(number).delay : times_[number]; }
  const std::vector<std::uint32_t>& first() const { return first_; }  // tasks that wait for nothing, by rank
  // The rank of a task: its place in the order of priorities, of equal ones in that of numbers; and the task of a rank.
  std::uint32_t rank(std::uint32_t number) const { return ranks_.empty() ? number : ranks_[number]; }
  std::uint32_t at_rank(std::uint32_t rank) const { return by_rank_.empty() ? rank : by_rank_[rank]; }
  std::int32_t waits(std::uint32_t number) const { return waits_[number]; }

  // Call a function for each task that waits for one, by rank.
  template <typename Function>
  void each_successor(std::uint32_t number, Function function) const {
    for (std::uint32_t next = first_successor_[number]; next != first_successor_[number + 1]; ++next) function(successors_[next]);
  }

 private:
  void check_columns(const ProgramColumns& columns) const;
  void set_ranks(const std::vector<std::uint32_t>& priorities);
  void link(const ProgramColumns& columns);

  ProgramId number_;
  bool has_units_ = false;
  std::vector<Task> kinds_;
  std::vector<std::uint32_t> kind_of_;
  std::vector<Time> times_;          // delays of tasks that have one of their own, else -1; or nothing
  std::vector<std::int32_t> waits_;  // for how many tasks each waits
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> ranks_, by_rank_;  // nothing where ranks are numbers
  std::vector<std::uint32_t> successors_;       // those of a task are from first_successor_[task] on
  std::vector<std::uint32_t> first_successor_;
};

// The units of an NPU: which are busy, and the ready tasks of each by rank; the last is for tasks that need none.
//
// Collectives that need a unit are ready by themselves where NPUs agree on the order of theirs: one may have to wait for another. Programs
// with one agreement have the same ranks.
class Units {
 public:
  Units(NpuId npu, Agreements& agreements) : npu_(npu), agreements_(&agreements) {}

  // A task is ready that needs a unit, or (-1) none.
  void add(const Task& kind, std::uint32_t rank);
  // Take the ready task of the lowest rank whose unit is not busy, and make it busy; false where there is none.
  bool next(std::uint32_t& rank);
  // A task has ended that needed a unit.
  void release(std::int8_t unit) { busy_ &= ~(1u << unit); }
  // The ranks of the ready tasks.
  std::vector<std::uint32_t> ready() const;

 private:
  // The collective that may take a unit next by the agreement; kNone if it is not ready.
  std::uint32_t next_collective(std::uint32_t unit) const;

  NpuId npu_;
  Agreements* agreements_;
  std::uint32_t busy_ = 0, waiting_ = 0;          // a bit for each: whether the unit is busy, and whether tasks are ready for it
  std::vector<std::uint32_t> ready_[kUnits + 1];  // heaps of the ranks of tasks
  std::uint32_t agreed_ = 0;                      // a bit for each unit: whether it has had collectives that are agreed on
  std::set<std::uint32_t> collectives_[kUnits];   // the ranks of those that are ready
};

class Tasks {
 public:
  Tasks(Events& events, TaskDurations& durations, Collectives& collectives, PointToPoint& point_to_point, Agreements& agreements,
        std::uint32_t npus);

  // Let NPUs run a program, which is of an agreement (-1: of none). Raises std::invalid_argument.
  void add_program(ProgramColumns columns, const std::vector<std::int64_t>& npus, std::int64_t agreement);
  // Keep the times of an NPU, which has no program yet.
  void observe(NpuId npu);
  bool is_observed(NpuId npu) const { return records_.has(npu); }

  const TaskTimes& times(NpuId npu) const { return records_[npu].times; }
  // The sends of an observed NPU that have begun, by number of the task.
  std::vector<SendRecord> sends(NpuId npu) const;
  // When the last task of each NPU so far ended (-1: none has).
  std::vector<Time> ended_at() const;
  std::vector<Unfinished> unfinished() const;
  // Tasks that have ended, of all NPUs.
  std::uint64_t ended() const { return ended_; }

  // Make the tasks ready that wait for nothing.
  void start_all();
  bool started() const { return started_; }
  // A task has ended: those that wait for nothing else are ready.
  void finish(TaskId task);
  // A chunk of a collective has ended; its delay begins when all have.
  void chunk_ended(TaskId task);

 private:
  enum State : std::uint8_t { kWaiting, kReady, kEnded };
  struct TaskRun {
    std::int32_t left;  // tasks it waits for; once it is ready, chunks that have not ended
    State state;
  };

  struct Npu {
    ProgramId program = kNone;
    std::size_t first_task = 0;   // in tasks_
    std::uint32_t units = kNone;  // in units_
    Time ended_at = -1;
  };

  struct Record {
    TaskTimes times;
    std::vector<SendRecord> sends;
  };

  void give(const Program& program, NpuId npu);
  // Make a task ready, and begin those that find their unit free in order of rank.
  void pump_units(NpuId npu);
  void add_ready(TaskId task);
  // Make a task ready that waits for nothing, and those that wait for it where it ends at once.
  void start(TaskId task);
  // Begin a ready task; false where it has ended at once.
  bool begin_ready(TaskId task);
  // Take one wait off a task; whether that was the last.
  bool release(TaskId task) { return --run_of(task).left == 0; }
  // A task begins that takes time; of a collective, the delay after its chunks.
  void begin(TaskId task);
  void end(TaskId task);
  void set_ready(TaskId task);
  const Program& program_of(NpuId npu) const { return programs_[npus_[npu].program]; }
  TaskRun& run_of(TaskId task) { return tasks_[npus_[task.npu].first_task + task.number]; }
  Units& units_of(NpuId npu) { return units_[npus_[npu].units]; }

  Events& events_;
  TaskDurations& durations_;
  Collectives& collectives_;
  PointToPoint& point_to_point_;
  Agreements& agreements_;
  bool started_ = false;
  std::uint64_t ended_ = 0;
  std::vector<Npu> npus_;
  std::vector<Program> programs_;
  std::vector<TaskRun> tasks_;
  std::vector<Units> units_;
  Observed<Record> records_;
};

}  // namespace astra::engine
