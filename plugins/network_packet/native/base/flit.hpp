// Objects that move through the network: flits of packets of messages one way, credits the other way.
#pragma once

#include <cstdint>
#include <limits>

namespace astra::packet {

using Cycle = std::int64_t;
inline constexpr Cycle kNever = std::numeric_limits<Cycle>::max();

struct Flit {
  Cycle time = 0;  // when it arrives (on a link) or has arrived (in a buffer)
  std::uint32_t packet = 0;
  std::uint16_t vc = 0;  // virtual channel of the link, counted over those the link has
  bool head = false;
  bool tail = false;
};

struct Credit {
  Cycle time = 0;  // when its receiver can use it
  std::uint16_t vc = 0;
  bool frees = false;  // the virtual channel is idle again: the credit of a tail
};

struct alignas(64) Packet {  // in a cache line
  std::uint32_t message = 0;
  std::int32_t destination = 0;
  std::int32_t flits = 1;
  std::int64_t sequence = 0;  // its place in the message
  Cycle created = 0;          // when it was made of its message
  Cycle injected = 0;         // when its head left the source
  std::int32_t hops = 0;      // links between routers crossed so far
  std::uint16_t vnet = 0;
  std::uint8_t vc_class = 0;  // class of virtual channels, if datelines divide them
};

inline constexpr std::uint32_t kNoMessage = std::numeric_limits<std::uint32_t>::max();

struct Message {
  std::int32_t destination = 0;  // node
  std::int64_t packets = 0;
  std::int64_t unmade = 0;      // packets that the source has still to make
  std::int64_t missing = 0;     // packets that the destination has still to receive
  std::int32_t last_flits = 1;  // flits of the last packet
  Cycle created = 0;
  Cycle ready = 0;  // first cycle in which the source may make a packet
  std::uint64_t number = 0;
  Cycle flight = 0;                   // cycles from the departure of its last flit to its arrival, at least; 0: not needed
  std::uint32_t behind = kNoMessage;  // the next one from there to the same destination, if destinations take turns
  Cycle landing = 0;                  // when it can arrive at the soonest, since that has left
};

}  // namespace astra::packet
