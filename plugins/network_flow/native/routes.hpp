// Routes of messages: the dimensions in which source and destination differ, in ascending order, and in each a path of the fabric.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fabric.hpp"
#include "flat_table.hpp"
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
  double ns_per_byte = 0;     // the sum over its links
  std::span<const Use> uses;  // each link once, also those that acknowledgements take
};

class Routes {
 public:
  Routes(const Fabric& fabric, const Rules& rules);

  // The route from an NPU to another. Valid until the next call. Raises RouteError.
  // With `around` one through every other switch next to NPUs: see `Paths`.
  Path path(int source, int destination, bool around);

 private:
  struct Key {
    std::int64_t ends = kNone;
    bool operator==(const Key&) const = default;
    bool empty() const { return ends == kNone; }
    std::size_t hash() const { return static_cast<std::uint64_t>(ends) * 0x9e3779b97f4a7c15; }
  };

  // A path whose links are in `uses_`, and where.
  struct Known {
    double latency_ns = 0, ns_per_byte = 0;
    int first = 0, count = 0;
    bool is_needed() const { return true; }
  };

  static constexpr std::int64_t kNone = -1;

  // Adds the links to `uses_`, and the rest to the path.
  void trace(int source, int destination, bool around, Known& path);
  const Known& learn(const Key& key, int source, int destination, bool around);
  Known make(int source, int destination, bool around);

  const Fabric& fabric_;
  double ack_share_;
  bool switches_only_;
  std::deque<Paths> paths_;  // of each dimension; they stay where they are
  FlatTable<Key, Known> known_;
  std::vector<Use> uses_;
};

}  // namespace astra::flow
