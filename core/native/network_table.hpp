// The functions of a compiled network (include/astra_sim/network.h), called with care.
//
// A function may report an error, throw, or answer what cannot be: a time outside of what was asked for, or messages without numbers. Each
// of these is a NetworkFailure, with the words of the network where it has some.
#pragma once

#include <cstdint>
#include <vector>

#include "astra_sim/network.h"
#include "ids.hpp"

namespace astra::engine {

class NetworkTable {
 public:
  explicit NetworkTable(const astra_network* table) : table_(table) {}

  // Picoseconds of a message; negative where the network reports an error.
  Time delay(NpuId source, NpuId destination, std::int64_t bytes) const;
  void inject(Time now, const std::vector<astra_message>& messages) const;
  // The next delivery between two times; false where there is none.
  bool advance(Time since, Time until, Time& time, std::vector<std::uint64_t>& numbers) const;
  // Raise what the network says of its last error, or that a function failed.
  [[noreturn]] void fail(const char* function) const;

 private:
  const astra_network* table_;
};

}  // namespace astra::engine
