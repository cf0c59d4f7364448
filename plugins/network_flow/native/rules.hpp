// The rules of a network: its options.
#pragma once

#include <astra_sim/fabric/routes.hpp>
#include <cstdint>

namespace astra::flow {

// Which of several shortest ways a message takes. With valiant it takes none of these: equal parts of it go through every other switch next
// to NPUs (Valiant and Brebner, STOC 1981); with ugal it does that or goes as with split (Singh, Stanford 2005).
enum class Routing { hash, destination, first, split, valiant, ugal };

struct Rules {
  Routing routing = Routing::hash;
  fabric::HostForwarding npus_forward = fabric::HostForwarding::if_needed;
  std::uint64_t seed = 0;
  double bandwidth_factor = 1;
  double latency_factor = 1;
  bool by_round_trip = false;  // the weight of a flow is one over its round trip time, else all weigh the same
  double weight_bytes = 0;     // what of that time links add by their bandwidth: so many bytes over it
  double window_bytes = 0;     // a flow has no more than this under way in a round trip; 0: no limit
  double tolerance = 0;        // rates are computed so late after a flow has ended, as a share of the time that it took
  double ack_share = 0;        // what acknowledgements take on the way back, of what the flow takes
};

}  // namespace astra::flow
