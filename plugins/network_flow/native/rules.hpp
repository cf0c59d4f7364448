// The rules of a network: its options, with those of the preset where none is given. Defaults are those of the options class alone.
#pragma once

#include <array>
#include <astra_sim/fabric/routes.hpp>
#include <astra_sim/fields.hpp>
#include <cstdint>
#include <tuple>

namespace astra::flow {

// Which of several shortest paths a message takes. With valiant it takes none of these: equal parts of it go through every other switch
// next to NPUs (Valiant and Brebner, STOC 1981); with ugal it does that or goes as with split (Singh, Stanford 2005).
enum class Routing { hash, destination, first, split, valiant, ugal };

// The weights of flows that share a link: all the same, or each one over its round trip time.
enum class Fairness { equal, rtt };

// Which messages from an NPU to another share a connection, on which they go one after another: those of a queue, or outside of queues
// those of a flow; or none.
enum class Connection { queue, message };

struct Rules {
  Routing routing;
  fabric::HostForwarding npus_forward;
  Fairness fairness;
  Connection connections;
  std::uint64_t seed;
  double bandwidth_factor;
  double latency_factor;
  double weight_bytes;  // the bytes whose time at its bandwidth each link adds to a round trip time
  double window_bytes;  // a flow has no more than this under way in a round trip; 0: no limit
  double tolerance;     // rates are computed so late after a flow has ended, as a share of the time that it took
  double ack_share;     // the bandwidth of acknowledgements on the way back, over that of the flow

  bool by_round_trip() const { return fairness == Fairness::rtt; }
};

}  // namespace astra::flow

namespace astra {

template <>
inline constexpr auto names<flow::Routing> = std::array{"hash", "destination", "first", "split", "valiant", "ugal"};
template <>
inline constexpr auto names<fabric::HostForwarding> = std::array{"if_needed", "always", "never"};
template <>
inline constexpr auto names<flow::Fairness> = std::array{"equal", "rtt"};
template <>
inline constexpr auto names<flow::Connection> = std::array{"queue", "message"};

template <>
inline constexpr auto fields<flow::Rules> = std::tuple{
    ASTRA_FIELD(flow::Rules, routing),      ASTRA_FIELD(flow::Rules, npus_forward),     ASTRA_FIELD(flow::Rules, fairness),
    ASTRA_FIELD(flow::Rules, seed),         ASTRA_FIELD(flow::Rules, bandwidth_factor), ASTRA_FIELD(flow::Rules, latency_factor),
    ASTRA_FIELD(flow::Rules, weight_bytes), ASTRA_FIELD(flow::Rules, window_bytes),     ASTRA_FIELD(flow::Rules, tolerance),
    ASTRA_FIELD(flow::Rules, ack_share),    ASTRA_FIELD(flow::Rules, connections),
};

}  // namespace astra
