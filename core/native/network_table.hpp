// The functions of a compiled network, called with care.
#pragma once

#include <cstdint>
#include <vector>

#include "astra_sim/network.h"
#include "ids.hpp"

namespace astra::engine {

// What a function reports, throws, or answers wrongly becomes a NetworkFailure.
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
