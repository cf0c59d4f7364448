// What a run asks of Python, and the errors that end it.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "astra_sim/network.h"
#include "programs.hpp"
#include "waiting.hpp"

namespace astra {

// How the rules of a queue's order see a sort of jobs: the number of the rule that places it, and its marks by each. Where a rule goes by
// priority the job's priority counts, not the key.
struct Standing {
  std::uint32_t rule;
  std::vector<Mark> marks;
};

// What a run asks of Python, seldom: all but `delay`, `place` and the two of event networks at most once per collective or sort of job.
class Host {
 public:
  virtual ~Host() = default;
  virtual std::vector<Chunk> issue(std::uint32_t program, std::uint32_t task, Time now) = 0;
  virtual Standing standing(std::uint32_t queue, std::uint32_t sort) = 0;
  // The place of a job in a queue: (number of the queue, jobs in it, how many run, the new one).
  virtual std::uint32_t place(std::uint32_t queue, const std::deque<Job>& jobs, std::uint32_t running, const Job& job) = 0;
  virtual Time delay(std::int32_t source, std::int32_t destination, std::int64_t bytes) = 0;
  virtual void inject(Time now, const std::vector<astra_message>& messages) = 0;
  // The next delivery between two times; false where there is none.
  virtual bool advance(Time since, Time until, Time& time, std::vector<std::uint64_t>& numbers) = 0;
};

struct TooLong : std::runtime_error {
  TooLong() : std::runtime_error("the run takes longer than can be simulated") {}
};

struct NotUnderWay : std::runtime_error {
  explicit NotUnderWay(std::uint64_t number) : std::runtime_error(std::to_string(number)) {}  // what() is the number
};

// Programs share a collective that is not the same for them.
struct UnlikeCollectives : std::runtime_error {
  UnlikeCollectives(std::uint32_t program, std::uint32_t task, std::uint32_t first_program, std::uint32_t first_task, std::uint32_t ordinal)
      : std::runtime_error(std::to_string(program) + " " + std::to_string(task) + " " + std::to_string(first_program) + " " +
                           std::to_string(first_task) + " " + std::to_string(ordinal)) {}  // what() is the numbers
};

struct NetworkFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace astra
