// Numbers of things, times, and the arithmetic of rates.
//
// A tick is the unit of time of a network: a picosecond, or a nanosecond. Everything that there are many of is numbered from 0.
#pragma once

#include <cstdint>
#include <limits>

namespace astra::roce {

using Tick = std::int64_t;
using NodeId = std::uint32_t;
using LinkId = std::uint32_t;    // a link, one way; also the port that sends on it
using FlowId = std::uint32_t;    // a message under way
using PacketId = std::uint32_t;  // a packet in the pool

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr Tick kNever = std::numeric_limits<Tick>::max();
constexpr std::uint32_t kQueues = 8;     // of a port; queue 0 holds pauses, the others are priority groups
constexpr std::uint8_t kUsualGroup = 3;  // the priority group of messages that ask for none

// Ticks that bytes take at a rate (bits per second), rounded to the nearest.
constexpr Tick transmission(std::int64_t bytes, std::int64_t rate, Tick ticks_per_s) {
  const auto bits = static_cast<unsigned __int128>(bytes) * 8 * static_cast<std::uint64_t>(ticks_per_s);
  return static_cast<Tick>((2 * bits + static_cast<std::uint64_t>(rate)) / (2 * static_cast<unsigned __int128>(rate)));
}

constexpr double real(std::int64_t number) { return static_cast<double>(number); }

// A real number of bits per second, cut towards zero.
constexpr std::int64_t whole(double number) { return static_cast<std::int64_t>(number); }

}  // namespace astra::roce
