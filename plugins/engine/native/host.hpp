// Calls of a run to Python: the plans of collectives, orders of queues, and a network that has no function table.
//
// The engine itself knows no Python. module.cpp implements this with the functions that a run is given.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "astra_sim/network.h"
#include "interface.hpp"
#include "waiting.hpp"

namespace astra::engine {

// A class of jobs as the rules of a queue's order see it: the number of the rule that places it, and its marks by each. If a rule goes by
// priority the job's priority counts, not the key.
struct Standing {
  std::uint32_t rule;
  std::vector<Mark> marks;
};

// All but `compute`, `delay`, `overhead`, `place` and the two of event networks are asked at most once per collective or class of jobs.
class Host {
 public:
  virtual ~Host() = default;
  // The chunks of a collective.
  virtual std::vector<Chunk> issue(ProgramId program, std::uint32_t task, Time now) = 0;
  virtual Standing standing(QueueId queue, JobClass job_class) = 0;
  // The place of a job in a queue: (number of the queue, jobs in it, how many run, the new one).
  virtual std::uint32_t place(QueueId queue, const std::deque<Job>& jobs, std::uint32_t running, const Job& job) = 0;
  // The time of a task that computes from `begin` on.
  virtual Time compute(NpuId npu, std::uint32_t task, Time begin) = 0;
  // The time of a processor for a message that it sends or receives.
  virtual Time overhead(std::int64_t bytes, bool receives) = 0;
  virtual Time delay(NpuId source, NpuId destination, std::int64_t bytes) = 0;
  virtual void inject(Time now, std::span<const astra_message_v2> messages) = 0;
  // The next deliveries between two times; false where there are none.
  virtual bool advance(Time since, Time until, Time& time, std::vector<astra_delivery>& deliveries) = 0;
};

}  // namespace astra::engine
