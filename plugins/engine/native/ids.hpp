// Numbers that name things, and how to go from a number to its thing.
//
// The engine's records are in arrays, and are named by their index there. The alias tells which array a number belongs to. `at` looks it up
// whatever the type of the number; `narrow` makes a number smaller whose range was checked where it came in; a `Pool` uses the numbers of
// records that are gone again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace astra::engine {

using Time = std::int64_t;  // picoseconds

using NpuId = std::uint32_t;
using ProgramId = std::uint32_t;
using GroupsId = std::uint32_t;
using ScheduleId = std::uint32_t;
using PhaseKindId = std::uint32_t;  // a phase, as often as it happens
using PhaseId = std::uint32_t;      // a phase that happens
using ReceiptId = std::uint32_t;    // a receive of a rank
using PlanId = std::uint32_t;
using CollectiveId = std::uint32_t;
using StepId = std::uint32_t;  // a chunk on an NPU, in one of its phase steps
using QueueId = std::uint32_t;
using MailboxId = std::uint32_t;
using HandledId = std::uint32_t;  // a message on which processors spend time
using CausalKeyId = std::uint32_t;
using JobClass = std::uint32_t;  // the class of a job, without its priority

constexpr std::uint32_t kNone = 0xffffffff;

// A task of an NPU.
struct TaskId {
  NpuId npu;
  std::uint32_t number;
};

// A rank of a phase that happens, by its place among the ranks of all groups.
struct RankId {
  PhaseId phase;
  std::uint32_t place;
};

template <typename To, typename From>
constexpr To narrow(From number) {
  return static_cast<To>(number);
}

template <typename Container, typename Id>
constexpr auto& at(Container& container, Id id) {
  return container[static_cast<std::size_t>(id)];
}

// The number that the next element of a container gets.
template <typename Container>
std::uint32_t next_id(const Container& container) {
  return narrow<std::uint32_t>(container.size());
}

// Two numbers as one key.
constexpr std::uint64_t pair_key(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }

// Numbered records. The number of one that was released is given to another; its content stays until then.
template <typename Record>
class Pool {
 public:
  std::uint32_t add(Record record) {
    if (free_.empty()) {
      records_.push_back(std::move(record));
      return next_id(records_) - 1;
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    records_[id] = std::move(record);
    return id;
  }

  void release(std::uint32_t id) { free_.push_back(id); }

  Record& operator[](std::uint32_t id) { return records_[id]; }
  const Record& operator[](std::uint32_t id) const { return records_[id]; }

  auto begin() const { return records_.begin(); }
  auto end() const { return records_.end(); }

 private:
  std::vector<Record> records_;
  std::vector<std::uint32_t> free_;
};

// The record of observed NPUs.
template <typename Record>
class Observed {
 public:
  explicit Observed(std::size_t npus) : place_of_(npus, kNone) {}

  void add(NpuId npu) {
    place_of_[npu] = next_id(records_);
    records_.emplace_back();
  }

  bool has(NpuId npu) const { return npu < place_of_.size() && place_of_[npu] != kNone; }
  Record* find(NpuId npu) { return place_of_[npu] == kNone ? nullptr : &records_[place_of_[npu]]; }
  const Record& operator[](NpuId npu) const { return records_[place_of_[npu]]; }

 private:
  std::vector<std::uint32_t> place_of_;
  std::vector<Record> records_;
};

}  // namespace astra::engine
