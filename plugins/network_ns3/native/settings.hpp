// SPDX-License-Identifier: GPL-2.0-only
// The options of a network, and the graph on which it runs.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace astra::tcp {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// A message that cannot be sent, or a graph that cannot be.
struct Impossible : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Messages are under way that cannot arrive any more. The first line says why, each other one names a message.
struct Stuck : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string congestion_control;  // a class of ns-3
  bool marks = false;              // switches and interfaces mark packets (ECN)
  bool hystart = true;             // CUBIC
  bool connection_per_message = false;
  std::uint32_t segment_bytes = 0;
  std::uint32_t initial_window = 0;     // segments
  std::uint32_t ack_every = 0;          // segments
  std::int64_t ack_delay = 0;           // ps
  std::int64_t least_timeout = 0;       // ps
  std::int64_t connect_timeout = 0;     // ps
  std::uint32_t retries = 0;            // of a segment, before a connection is given up
  std::uint32_t connect_retries = 0;    // of the segment that makes a connection
  std::uint32_t send_buffer = 0;        // bytes
  std::uint32_t receive_buffer = 0;     // bytes
  std::uint32_t queue_packets = 0;      // at a port of a switch
  std::uint32_t nic_queue_packets = 0;  // at a port of an NPU
  std::uint32_t mark_packets = 0;       // packets are marked where so many wait
  std::uint32_t seed = 1;
};

// A link, one way.
struct Link {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint64_t bits_per_s = 0;
  std::int64_t delay = 0;     // ps
  double error = 0;           // probability that a packet is lost
  std::uint32_t reverse = 0;  // the link back
  int cost = 1;               // routes have the least sum of these
};

// NPUs come first, then switches.
struct Plan {
  std::uint32_t npus = 0;
  std::uint32_t nodes = 0;
  bool through_npus = false;
  std::vector<Link> links;
};

// A node for people.
inline std::string name_of(const Plan& plan, std::uint32_t node) {
  return node < plan.npus ? "NPU " + std::to_string(node) : "switch " + std::to_string(node - plan.npus);
}

}  // namespace astra::tcp
