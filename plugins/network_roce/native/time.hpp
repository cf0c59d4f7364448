// Times, classes and connections of the kernel, as the network has them.
#pragma once

#include <algorithm>
#include <astra_sim/connection.hpp>
#include <cstdint>

#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

constexpr std::int64_t kPicosecondsOfNanosecond = 1000;

inline std::int64_t picoseconds_of_tick(const Settings& settings) { return kPicosecondsOfNanosecond / settings.ticks_per_ns; }

// The first tick that is not before a time in picoseconds.
inline Tick ticks_of(std::int64_t picoseconds, const Settings& settings) {
  const std::int64_t tick = picoseconds_of_tick(settings);
  return (picoseconds + tick - 1) / tick;
}

// The queue of a traffic class: 1 to 7 as it is, since queue 0 is that of pauses.
inline std::uint8_t priority_group(std::int32_t traffic_class) {
  return traffic_class < 1 ? kUsualGroup : static_cast<std::uint8_t>(std::min<std::int32_t>(traffic_class, kQueues - 1));
}

// The connection of a message; 0 where each has one of its own.
inline std::int64_t connection_of(const Settings& settings, std::int32_t queue, std::uint64_t flow) {
  return settings.connections ? astra::connection_of(queue, flow) : 0;
}

}  // namespace astra::roce
