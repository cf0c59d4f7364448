// The input and output of an engine, as in astra_sim/engine/interface.py.
//
// A program is a list of tasks that some NPUs run. A collective among them issues chunks, which pass through their phase steps one after
// another, each in a queue of the NPU or in none. The input does not change during a run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ids.hpp"
#include "schedule.hpp"

namespace astra::engine {

constexpr std::int64_t kControlBytes = 8192;  // of the message with which a receiver asks for data (rendezvous)
constexpr std::uint32_t kUnits = 8;           // of an NPU

enum class TaskKind : std::uint8_t { join, timer, collective, access, send, receive, compute };

// The type of a task.
struct Task {
  TaskKind kind;
  std::int8_t unit;  // of its NPU, or -1
  bool repeats;      // a collective that becomes the same chunks as others of its number
  Time delay;
  Peer peer;  // of a send or receive, among all NPUs
  std::int32_t tag;
  std::int64_t bytes;
  std::int32_t group;       // in which programs share a collective, or -1
  std::int32_t collective;  // number of a collective, or -1
};

// The tasks of a program, each like one of `kinds`. Task t waits for after[after_end[t - 1]] to after[after_end[t] - 1].
struct ProgramColumns {
  std::vector<Task> kinds;
  std::vector<std::uint32_t> kind_of;
  std::vector<Time> times;                // delays of tasks that have one of their own, else -1; or nothing
  std::vector<std::uint32_t> priorities;  // of tasks that are ready at once the lowest starts first; or nothing: in order of number
  std::vector<std::uint64_t> after_end;
  std::vector<std::uint32_t> after;
};

// A queued chunk as queue orders see it.
struct Job {
  JobClass job_class;
  std::int64_t priority;
};

// A rule of an order. The host gives the keys of classes of jobs by it, unless it goes by priority.
struct Rule {
  bool by_priority;
  bool before_equal;
  bool in_turn;
};

// The slots of a queue, and its rules; none where its order is a function.
struct QueuePlan {
  std::int64_t slots;
  std::vector<Rule> rules;
};

// A chunk in one of its phases: phase number `phase`, or (-1) a time of `delay` that ends with a causal key of offsets.
struct PhaseStep {
  Job job;
  std::int64_t age;  // growth of the priority with every collective
  std::int32_t queue;
  std::int32_t phase;
  Time delay;
  std::vector<Time> causal_key;
  std::uint32_t phase_place = 0;  // among the phases of its plan
  std::uint32_t number = 0;       // among the steps of all plans
};

using Chunk = std::vector<PhaseStep>;

// Parameters of LogGP in nanoseconds. `burst` counts the transfers after which a side lets the other go first.
struct BusOptions {
  std::int64_t latency, overhead, gap;
  double gap_per_byte;
  std::int64_t reduction_delay;
  double memory_gap_per_byte;  // of the inner bus
  std::int64_t burst, reduction_overhead;
};

enum class NetworkKind { delays, events };

struct Options {
  std::uint32_t npus = 0;
  NetworkKind network = NetworkKind::delays;
  Time endpoint_ps = 0;
  bool rendezvous = false;
  bool reports_completion = false;  // an event network without a table reports when senders know that their messages have arrived
  std::unique_ptr<BusOptions> bus;
};

// When the tasks of an observed NPU were ready and when they ended (-1: not yet).
struct TaskTimes {
  std::vector<Time> ready, ended;
};

// A send that has begun.
struct SendRecord {
  std::uint32_t task;
  Time began_at;
};

// A rank's measurement: the time from posting a receive to its message, over the received ones.
struct Measured {
  Time delay_sum = 0;
  std::uint32_t received = 0;
};

// A phase step of a chunk on an observed NPU.
struct PhaseStepRecord {
  std::uint32_t task, step;
  Time queued_at = -1, started_at = -1, ended_at = -1;
  Measured measured{};
};

// How far a rank is that has begun in a phase and not ended; `posted` are the receives that wait for their message.
struct RankState {
  std::uint32_t task, chunk, step;
  NpuId npu;
  ScheduleId schedule;
  std::uint32_t place;
  std::int32_t tokens;
  std::uint32_t arrivals, next_action;
  std::vector<ReceiptId> posted;
};

// Messages of tasks that have arrived and that no task has received.
struct Unreceived {
  NpuId source, destination;
  std::int32_t tag;
  std::int64_t bytes;
  std::uint64_t count;
};

// A task that has not ended, and whether it has begun: one that is ready may wait for its unit.
struct Unfinished {
  NpuId npu;
  std::uint32_t task;
  bool begun;
};

}  // namespace astra::engine
