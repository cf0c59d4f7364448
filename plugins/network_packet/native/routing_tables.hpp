// Routing tables: where a router sends a packet for a node, and the classes of virtual channels that keep these ways from deadlock.
//
// Packets cross the dimensions in order, and each on a shortest way: a router looks up the first dimension in which it differs from the
// node. Packets in different classes do not wait for each other, so classes cut the circles that the ways of a dimension form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index.hpp"
#include "rules.hpp"

namespace astra::packet {

class RoutingTables {
 public:
  // Of routers and channels that are added before `make`.
  RoutingTables(const Rules& rules, const std::vector<RouterSpec>& routers, std::vector<ChannelSpec>& channels,
                const std::vector<int>& sizes, const std::vector<int>& node_router)
      : rules(rules), router(routers), channel(channels), sizes(sizes), node_router(node_router) {}

  // A dimension that is folded: see Shape.
  void fold(int d, std::vector<int> channels);
  // A dimension whose positions take turns at equal ways, by these numbers: see astra_sim/fabric/destination_order.hpp.
  void take_turns(int d, std::vector<int> turns);
  // A dimension whose topology names its routes: [router * size + position]: channels on which packets for the position leave the router.
  void name_ways(int d, std::vector<std::vector<int>> channels);
  bool is_named(int d) const { return index(d) < named_.size() && !at(named_, d).empty(); }
  bool takes_turns(int d) const { return index(d) < turns_.size() && !at(turns_, d).empty(); }
  bool is_folded() const { return !folded_.empty(); }
  bool is_folded(int d) const { return is_folded() && !at(folded_, d).empty(); }
  int folded_channel(int d, int r, int offset) const { return at(at(folded_, d), r * at(sizes, d) + offset); }
  // Whether the ways in dimensions that are not folded are those of the whole network: there is one way each, or times are whole cycles, so
  // that they are balanced alike, and none is random.
  bool kept_ways_are_whole() const;

  // Tables, and the classes of virtual channels that the ways need; gives links an order where they have none and need one. Throws
  // std::invalid_argument if a node cannot reach another.
  void make();

  // What packets carry as their destination: the number of a node or, of a folded network, one on the whole platform, of which the
  // coordinates in folded dimensions are offsets from where the packet is.
  int addresses() const { return count_of(node_at_); }
  int position(int address, int d) const { return position_[index(address) * sizes.size() + index(d)]; }
  // The node of an address without offsets.
  int node_at(int address) const { return at(node_at_, address); }
  // The address beyond a link of a folded dimension.
  int beyond(int d, Fold fold, int address) const;

  // The entry of a router and an address: the place of a channel among the router's outputs, or one of kHere and kNoWay, and kSeveral.
  static constexpr std::uint16_t kSeveral = 0x8000;  // there are several next channels
  static constexpr std::uint16_t kPlace = 0x7fff;    // a place among the outputs of the router, or one of these
  static constexpr std::uint16_t kHere = 0x7fff;
  static constexpr std::uint16_t kNoWay = 0x7ffe;
  std::uint16_t hop(int r, int node) const { return hop_.empty() ? look_up(r, node) : at(hop_, r * hops_of_router_ + node); }
  // All next channels of shortest ways in the first dimension in which router and node differ.
  std::vector<int> next_hops(int r, int node) const;
  // That dimension, or -1.
  int differing_dimension(int r, int node) const {
    const std::size_t count = sizes.size();
    const int* const here = &coordinate_[index(r) * count];
    const int* const there = &position_[index(node) * count];
    for (std::size_t d = 0; d < count; ++d) {
      if (here[d] != there[d]) return narrow<int>(d);
    }
    return -1;
  }
  // By dimension, the classes of virtual channels that keep its routes from waiting for each other in a circle. With bubbles, rings need
  // one. Without any means against deadlock all are 1.
  const std::vector<int>& vc_classes() const { return classes_; }
  // Calls visit(channel) for every channel that a packet for position `wanted` of a dimension may take from router `r`.
  template <class Visit>
  void each_way(int d, int r, int wanted, Visit visit) const;

 private:
  static constexpr std::size_t kMostHops = 1 << 16;

  int routers() const { return count_of(router); }
  int nodes() const { return count_of(node_router); }
  // The entry of a router and a node in the table of their dimension.
  std::uint16_t look_up(int r, int node) const;
  // tables.cpp
  void make_addresses();
  void make_tables();
  void make_folded_table(int d);
  // For every router and position of a dimension, the place of the way that it takes, with kSeveral where there are others: by digits of
  // the position, or of its turn.
  std::vector<std::uint16_t> ways_by_position(int d) const;
  std::vector<std::uint16_t> ways_by_turn(int d) const;
  // The same where routes are named: the first of them.
  std::vector<std::uint16_t> ways_by_name(int d) const;
  // One table over all dimensions, where the network is small.
  void make_hops();
  // By router and position of a dimension, the cost of the shortest way.
  void measure_distances(int d);
  // The same where routes are named: the most links of them.
  void measure_named(int d);
  // Throws where a router of a node has no way to a position.
  void check_ways(int d) const;
  // Of each router, the links of the dimension from the nearest position.
  std::vector<int> heights(int d) const;
  // Calls visit(place) for every output of a router, by place, that is on a shortest way, or on one that is named, to position `wanted` of
  // a dimension.
  template <class Visit>
  void each_shortest(int d, int r, int wanted, Visit visit) const;
  // By height, what a destination is divided by before it chooses among several ways.
  std::vector<std::size_t> strides(int d, const std::vector<int>& height) const;
  // balance.cpp
  // Loads the links of a dimension evenly when every NPU sends as much to every other one.
  void balance(int d, std::vector<std::uint16_t>& table) const;
  // dependencies.cpp
  void make_classes();
  // By channel of a dimension, the channels that packets may take next in it.
  std::vector<std::vector<int>> followers(int d) const;
  // Gives an order to links that have none, for classes to go by.
  void order_links(int d);
  // Classes of virtual channels that a packet has in a dimension, at most.
  int most_classes(int d) const;

  const Rules& rules;
  const std::vector<RouterSpec>& router;
  std::vector<ChannelSpec>& channel;
  const std::vector<int>& sizes;
  const std::vector<int>& node_router;
  std::vector<int> classes_;                          // of virtual channels, by dimension
  std::vector<int> coordinate_;                       // [router * dimensions + dimension]
  std::vector<std::vector<int>> folded_;              // [dimension][router * size + offset]: a channel; empty where not folded
  std::vector<std::vector<int>> turns_;               // [dimension][position]; empty where positions take no turns
  std::vector<std::vector<std::vector<int>>> named_;  // [dimension][router * size + position]: channels; empty: shortest
  std::vector<int> position_;                         // [address * dimensions + dimension]
  std::vector<int> node_at_;                          // by address
  std::vector<std::uint16_t> hop_;                    // [router * addresses + address]: what look_up says; empty on large networks
  int hops_of_router_ = 0;                            // addresses
  std::vector<std::vector<std::uint16_t>> table_;     // [dimension][router * size + coordinate]: place of a channel among the outputs
  std::vector<std::vector<int>> distance_;            // the same: the cost of the links still to cross in the dimension, or -1
};

template <class Visit>
void RoutingTables::each_shortest(int d, int r, int wanted, Visit visit) const {
  const int size = at(sizes, d);
  if (is_named(d)) {
    const std::vector<int>& outputs = at(router, r).outputs;
    for (const int c : at(at(named_, d), r * size + wanted)) {
      visit(static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), c) - outputs.begin()));
    }
    return;
  }
  const std::vector<int>& distance = at(distance_, d);
  const int here = at(distance, r * size + wanted);
  if (here <= 0) return;
  const std::vector<int>& outputs = at(router, r).outputs;
  for (std::size_t place = 0; place < outputs.size(); ++place) {
    const ChannelSpec& spec = at(channel, outputs[place]);
    if (spec.dimension == d && at(distance, spec.sink * size + wanted) == here - spec.cost) visit(place);
  }
}

}  // namespace astra::packet
