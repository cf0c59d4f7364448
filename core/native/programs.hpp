// What an engine runs, as it is given: programs, groups of NPUs, schedules and phases. It does not change during a run.
#pragma once

#include <cstdint>
#include <vector>

#include "trails.hpp"

namespace astra {

constexpr std::int64_t kMax = INT64_MAX;
constexpr std::int64_t kUnknown = -1;  // a delay that depends on the rank: ask the network

enum class PeerKind : std::uint8_t { none, shift, exclusive_or, rank };

struct Peer {
  PeerKind kind = PeerKind::none;
  std::int32_t value = 0;

  // The rank meant, seen from `rank` in a group of `ranks`; shifts are modulo the group's size.
  std::int32_t of(std::int32_t rank, std::int32_t ranks) const {
    switch (kind) {
      case PeerKind::shift: {
        const std::int32_t sum = rank + value;
        return sum >= ranks ? sum - ranks : sum;
      }
      case PeerKind::exclusive_or:
        return rank ^ value;
      default:
        return value;
    }
  }
};

// A step of a rank: when to take it, what to send, and what to receive.
struct Action {
  std::int32_t after;           // credits
  std::int32_t after_arrivals;  // messages
  Peer to;
  std::int32_t slot;            // the receive that the message meets at its destination
  Peer from;
  std::int32_t receive_slot;    // the number of the rank's own receive
  std::int64_t bytes;
  std::int64_t delay;           // picoseconds of the message where it is the same from every rank, or kUnknown
  std::int64_t request_delay;   // the same for the request of a receive
};

// How a credit travels over a shared bus.
struct Carriage {
  std::int64_t bytes;
  bool to_npu;
  bool returned;
};

struct RankProgram {
  std::vector<Action> actions;
  std::vector<std::int64_t> memory_ps;  // for each receive the pass through memory, -1 where there is none
  std::vector<Carriage> carriages;      // only where there is a bus
  std::int32_t starts = 0;
  std::int32_t credits = 0;
  bool in_turn = false;  // memory_ps is for the messages in the order in which they come
};

// Groups of one size. A part of a phase is a place in `members`.
struct Groups {
  std::vector<std::int32_t> members;   // NPUs, group after group
  std::vector<std::int32_t> part_of;   // for each NPU its place in `members`, or -1
  std::int32_t size = 0;
  bool loop_back = false;              // part 0 stands for all

  std::size_t parts() const { return loop_back ? 1 : members.size(); }
};

struct Schedule {
  std::vector<RankProgram> programs;  // one for all ranks, or one for each
  std::uint32_t groups = 0;
};

enum class TaskKind : std::uint8_t { join, timer, collective, access, send, receive };

constexpr std::int32_t kUnits = 8;  // of an NPU

// What a task is like.
struct Task {
  TaskKind kind;
  std::int8_t unit;         // of its NPU, or -1
  bool repeats;             // a collective that becomes the same chunks as others of its number
  std::int64_t delay;
  Peer peer;                // of a send or receive, among all NPUs
  std::int32_t tag;
  std::int64_t bytes;
  std::int32_t group;       // in which programs share a collective, or -1
  std::int32_t collective;  // number of a collective, or -1
};

// A program: each task is like one of `kinds`, and those that wait for it are from successors[first_successor[task]] on.
struct Program {
  std::vector<Task> kinds;
  std::vector<std::uint32_t> kind_of;
  std::vector<Time> times;           // delays of tasks that have one of their own, else -1; or nothing
  std::vector<std::uint32_t> first;  // tasks that wait for nothing
  std::vector<std::uint32_t> successors;
  std::vector<std::uint32_t> first_successor;
  std::uint32_t npus = 0;
  bool has_units = false;

  std::size_t size() const { return kind_of.size(); }
  const Task& task(std::uint32_t number) const { return kinds[kind_of[number]]; }
  Time delay(std::uint32_t number) const { return times.empty() || times[number] < 0 ? task(number).delay : times[number]; }
};

// What the order of a queue looks at: sort of job, and priority.
struct Job {
  std::uint32_t sort;
  std::int64_t priority;
};

// A part of a chunk: phase number `phase`, or (-1) a time of `delay` that ends with a trail of offsets.
struct Part {
  Job job;
  std::int64_t age;  // what the priority grows by with every collective
  std::int32_t queue;
  std::int32_t phase;
  std::int64_t delay;
  std::vector<Time> trail;
  std::uint32_t place = 0;   // among the phases of its plan
  std::uint32_t number = 0;  // among the parts of all plans
};

using Chunk = std::vector<Part>;

struct BusOptions {
  std::int64_t latency, overhead, gap;  // nanoseconds
  double gap_per_byte;
  std::int64_t reduction_delay;
};

}  // namespace astra
