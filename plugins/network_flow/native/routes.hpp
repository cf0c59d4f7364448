// Routes of messages: the dimensions in which source and destination differ, in ascending order, and in each a path of the fabric.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric.hpp"
#include "paths.hpp"
#include "rules.hpp"

namespace astra::flow {

// A message that no network could carry: no way between its ends, or ends that are no NPUs.
struct RouteError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A link that a flow takes a share of: how much of it, of the rate of the flow.
struct Use {
  int link = 0;
  double share = 1;
};

// The route of messages between two NPUs. Latency: of links, switches and NICs.
struct Path {
  double latency_ns = 0;
  double ns_per_byte = 0;  // the sum over its links
  std::vector<Use> uses;   // each link once, also those that acknowledgements take
};

class Routes {
 public:
  Routes(const Fabric& fabric, const Rules& rules);

  // The route from an NPU to another. Valid until the next call. Raises RouteError.
  // With `around` one through every other switch next to NPUs: see `Paths`.
  const Path& path(int source, int destination, bool around);

 private:
  Path trace(int source, int destination, bool around);
  Path make(int source, int destination, bool around);

  const Fabric& fabric_;
  double ack_share_;
  bool switches_only_;
  std::deque<Paths> paths_;  // of each dimension; they stay where they are
  std::unordered_map<std::int64_t, Path> known_;
  std::size_t held_ = 0;  // links of known routes
};

}  // namespace astra::flow
