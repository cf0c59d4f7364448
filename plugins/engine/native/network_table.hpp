// The functions of a compiled network (include/astra_sim/network.h), called with care.
//
// A function may report an error, throw, or give an invalid answer: a time outside of the requested range, or messages without numbers.
// Each of these is a NetworkFailure, with the words of the network where it has some.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "astra_sim/network.h"
#include "ids.hpp"
#include "interface.hpp"

namespace astra::engine {

class NetworkTable {
 public:
  explicit NetworkTable(const astra_network* table) : first_(table) {}
  explicit NetworkTable(const astra_network_v2* table) : second_(table) {}

  // Whether the functions that a kind of network needs are there.
  bool is_whole(NetworkKind network) const;
  bool reports_completion() const { return second_ && second_->tells_sent != 0; }

  // Picoseconds of a message; negative where the network reports an error.
  Time delay(NpuId source, NpuId destination, std::int64_t bytes) const;
  void inject(Time now, std::span<const astra_message_v2> messages) const;
  // The next deliveries between two times; none where nothing is delivered. They stay until the next call, in `room` where the network has
  // numbers of messages alone.
  std::span<const astra_delivery> advance(Time since, Time until, Time& time, std::vector<astra_delivery>& room) const;
  // Raise the network's own last error, or that a function failed.
  [[noreturn]] void fail(const char* function) const;

 private:
  const astra_network* first_ = nullptr;      // of version 1,
  const astra_network_v2* second_ = nullptr;  // or of version 2
};

}  // namespace astra::engine
