// Orders that NPUs have in common, so that no two of them wait for each other.
//
// For each queue, and each unit, there is one order in which the NPUs of an agreement begin. The one that comes to a place first decides
// the next job, and all others follow; one that does not have it ready yet waits. `agreement.py` proves why then none wait for each other
// in a circle.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

// An item that begins in the same order on all NPUs: a chunk in a queue, as (task, chunk), or a collective with a unit, as (task, 0).
using Key = std::uint64_t;
constexpr Key kNoKey = UINT64_MAX;

// The order of one queue or unit, for `npus` NPUs; places that all of them have passed are dropped. `member_of` numbers the NPUs.
class Agreement {
 public:
  Agreement(std::uint32_t npus, const std::vector<std::uint32_t>& member_of) : npus_(npus), member_of_(member_of), place_(npus) {}

  // The next item that an NPU has to begin; kNoKey if it is the first to arrive there, and decides.
  Key next(NpuId npu) const;
  // An NPU begins the next item.
  void take(NpuId npu, Key key);

 private:
  struct Entry {
    Key key;
    std::uint32_t left;  // NPUs that have not come there
  };

  std::uint32_t npus_;
  const std::vector<std::uint32_t>& member_of_;
  std::vector<std::uint64_t> place_;  // of each member
  std::uint64_t first_ = 0;
  std::deque<Entry> entries_;
};

// Which NPUs agree, and the orders that they have in common. NPUs that agree with no other have none.
class Agreements {
 public:
  explicit Agreements(std::size_t npus) : number_of_(npus, kNone), member_of_(npus) {}

  // NPUs go by the orders of a number, with all others of that number. All join before the run.
  void join(std::uint32_t number, const std::vector<std::int64_t>& npus);
  // The order of a queue for an NPU, or nullptr.
  Agreement* of_queue(NpuId npu, std::uint32_t queue) { return find(npu, &Orders::queues, queue); }
  // The order of a unit for an NPU, or nullptr.
  Agreement* of_unit(NpuId npu, std::uint32_t unit) { return find(npu, &Orders::units, unit); }

 private:
  struct Orders {
    std::uint32_t members = 0;
    std::vector<std::unique_ptr<Agreement>> queues, units;
  };

  Agreement* find(NpuId npu, std::vector<std::unique_ptr<Agreement>> Orders::* of, std::uint32_t place);

  std::vector<std::uint32_t> number_of_;  // by NPU
  std::vector<std::uint32_t> member_of_;  // its place among those that agree with it
  std::vector<Orders> orders_;            // by number
};

}  // namespace astra::engine
