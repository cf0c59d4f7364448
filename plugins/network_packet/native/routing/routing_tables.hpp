// Routing tables: where a router sends a packet for a node, and the classes of virtual channels that keep these routes from deadlock.
//
// Packets cross the dimensions in order, and each on a route of that dimension (DimensionRoutes): a router looks up the first dimension in
// which it differs from the node.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "network/rules.hpp"
#include "routing/addresses.hpp"
#include "routing/dimension_routes.hpp"
#include "routing/layout.hpp"

namespace astra::packet {

class RoutingTables {
 public:
  // Of routers and channels that are added before `make`, and properties of dimensions set before it.
  explicit RoutingTables(Layout layout);
  RoutingTables(const RoutingTables&) = delete;
  RoutingTables& operator=(const RoutingTables&) = delete;

  DimensionRoutes& dimension(int d) { return at(dimensions_, d); }
  const DimensionRoutes& dimension(int d) const { return at(dimensions_, d); }

  // Tables, and the classes of virtual channels that the routes need; gives links an order where they have none and need one. Throws
  // std::invalid_argument if a node cannot reach another.
  void make();

  bool is_collapsed() const { return is_collapsed_; }
  // Whether the routes in dimensions that are not collapsed are those of the whole network: there is one each, or times are whole cycles,
  // so that they are balanced alike, and none is random.
  bool expanded_routes_are_whole() const;
  const Addresses& addresses() const { return addresses_; }
  // By dimension, the classes of virtual channels that keep its routes from waiting for each other in a circle. Without any means against
  // deadlock all are 1.
  const std::vector<int>& vc_classes() const { return classes_; }

  // The entry of a router and an address in the table of the first dimension in which they differ: see TableEntry.
  std::uint16_t hop(int r, int address) const { return hop_.empty() ? look_up(r, address) : at(hop_, r * addresses_.count() + address); }
  // All next channels of shortest paths in that dimension.
  std::vector<int> next_hops(int r, int address) const;
  // That dimension, or -1.
  int differing_dimension(int r, int address) const {
    const std::size_t count = dimensions_.size();
    const int* const here = &coordinate_[index(r) * count];
    const int* const there = addresses_.positions(address);
    for (std::size_t d = 0; d < count; ++d) {
      if (here[d] != there[d]) return narrow<int>(d);
    }
    return -1;
  }

 private:
  static constexpr std::size_t kMostHops = 1 << 16;

  std::uint16_t look_up(int r, int address) const;
  // One table over all dimensions, if the network is small.
  void make_hops();

  Layout layout_;
  bool is_collapsed_ = false;
  std::vector<DimensionRoutes> dimensions_;
  Addresses addresses_;
  std::vector<int> classes_;        // of virtual channels, by dimension
  std::vector<int> coordinate_;     // [router * dimensions + dimension]
  std::vector<std::uint16_t> hop_;  // [router * addresses + address]: the result of look_up; empty on large networks
};

}  // namespace astra::packet
