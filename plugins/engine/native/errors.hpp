// Errors that end a run, or refuse its input.
//
// Each carries its subject in fields, which module.cpp hands to Python; astra_sim_engine/machine.py makes messages for people of
// them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ids.hpp"

namespace astra::engine {

// Arguments that cannot be: a ValueError in Python.
[[noreturn]] inline void invalid(const std::string& what) { throw std::invalid_argument(what); }

// Time does not fit its 64 bits.
struct TooLong : std::runtime_error {
  TooLong() : std::runtime_error("the run takes longer than can be simulated") {}
};

// A network delivers a message that it does not have.
struct NotUnderWay : std::runtime_error {
  explicit NotUnderWay(std::uint64_t number) : std::runtime_error("a message is not under way"), number(number) {}

  std::uint64_t number;
};

// Two programs share a collective that is not the same for them. It is the `ordinal`-th of its group, from 1 on.
struct UnlikeCollectives : std::runtime_error {
  struct Task {
    ProgramId program;
    std::uint32_t task;
  };

  UnlikeCollectives(Task issued, Task first, std::uint32_t ordinal)
      : std::runtime_error("programs share unlike collectives"), issued(issued), first(first), ordinal(ordinal) {}

  Task issued, first;
  std::uint32_t ordinal;
};

// A function of a network's table failed.
struct NetworkFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The sum of two times. Raises TooLong.
inline Time sum(Time one, Time other) {
  Time result;
  if (__builtin_add_overflow(one, other, &result)) throw TooLong();
  return result;
}

}  // namespace astra::engine
