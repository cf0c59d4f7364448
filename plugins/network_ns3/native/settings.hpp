// SPDX-License-Identifier: GPL-2.0-only
// The options of a network, and the graph on which it runs.
#pragma once

#include <algorithm>
#include <array>
#include <astra_sim/fields.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace astra::tcp {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// A message that cannot be sent, or a graph that cannot be.
struct InvalidMessage : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Messages are under way that cannot arrive any more. The first line has the reason, each other one names a message.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class CongestionControl { cubic, newreno, dctcp };
enum class Connections { pair, message };

// The options of a network, whose defaults and ranges are those of the options class alone.
struct Settings {
  CongestionControl congestion_control;
  Connections connections;
  bool hystart;  // CUBIC
  std::uint32_t segment_bytes;
  std::uint32_t initial_window;  // segments
  std::uint32_t delayed_ack_segments;
  double delayed_ack_ms;
  double min_rto_ms;
  double connect_timeout_ms;
  std::uint32_t retries;  // of a segment, before a connection is given up
  std::uint32_t send_buffer_kib;
  std::uint32_t receive_buffer_kib;
  std::uint32_t queue_packets;      // at a port of a switch
  std::uint32_t nic_queue_packets;  // at a port of an NPU; 0: no limit
  std::uint32_t seed;
  std::uint32_t mark_packets;  // queue length from which packets are marked; of the constructor of a network

  // Switches and interfaces mark packets (ECN).
  bool marks() const { return congestion_control == CongestionControl::dctcp; }
  bool connection_per_message() const { return connections == Connections::message; }
  // The class of ns-3.
  const char* type_name() const {
    constexpr std::array kNames{"ns3::TcpCubic", "ns3::TcpNewReno", "ns3::TcpDctcp"};
    return kNames[static_cast<std::size_t>(congestion_control)];
  }
  // Repetitions of a handshake: as many as its waits can be counted, for each is twice as long as the one before.
  std::uint32_t connect_retries() const {
    constexpr std::int64_t kLongestWait = std::int64_t{1} << 61;
    constexpr int kMostDoublings = 29;
    const auto doublings = static_cast<std::uint64_t>(kLongestWait / std::max<std::int64_t>(1, picoseconds(connect_timeout_ms)));
    return std::min<std::uint32_t>({retries, kMostDoublings, static_cast<std::uint32_t>(std::bit_width(doublings) - 1)});
  }

  static std::int64_t picoseconds(double ms) { return std::llrint(ms * 1e9); }
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

namespace astra {

template <>
inline constexpr auto names<tcp::CongestionControl> = std::array{"cubic", "newreno", "dctcp"};
template <>
inline constexpr auto names<tcp::Connections> = std::array{"pair", "message"};

template <>
inline constexpr auto fields<tcp::Settings> = std::tuple{
    ASTRA_FIELD(tcp::Settings, congestion_control),
    ASTRA_FIELD(tcp::Settings, connections),
    ASTRA_FIELD(tcp::Settings, hystart),
    ASTRA_FIELD(tcp::Settings, segment_bytes),
    ASTRA_FIELD(tcp::Settings, initial_window),
    ASTRA_FIELD(tcp::Settings, delayed_ack_segments),
    ASTRA_FIELD(tcp::Settings, delayed_ack_ms),
    ASTRA_FIELD(tcp::Settings, min_rto_ms),
    ASTRA_FIELD(tcp::Settings, connect_timeout_ms),
    ASTRA_FIELD(tcp::Settings, retries),
    ASTRA_FIELD(tcp::Settings, send_buffer_kib),
    ASTRA_FIELD(tcp::Settings, receive_buffer_kib),
    ASTRA_FIELD(tcp::Settings, queue_packets),
    ASTRA_FIELD(tcp::Settings, nic_queue_packets),
    ASTRA_FIELD(tcp::Settings, seed),
};

}  // namespace astra
