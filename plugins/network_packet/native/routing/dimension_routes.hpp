// The routes of one dimension: for every router and position, the outputs on shortest paths (or on those that the topology names), and the
// one of them that the table has.
//
// Distances are those of the fabric's search, from all routers at a position back: every group of a dimension has links of its own, so one
// search finds the routes of all groups. This network adds which of several outputs the table takes: by digits of the position, so
// that destinations spread over all paths up (d-mod-k on k-ary n-trees), by the numbers of destinations where a topology gives them, and
// else balanced, so that links carry as much as each other (balance.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "network/rules.hpp"
#include "routing/layout.hpp"

namespace astra::packet {

class DimensionRoutes {
 public:
  DimensionRoutes(const Layout& layout, int d) : layout_(&layout), d_(d), size_(at(layout.sizes, d)) {}

  // Before `make`: routers of one position represent those of all: see Shape::routes.
  void collapse(std::vector<int> channels) { collapsed_ = std::move(channels); }
  // The numbers by which positions take turns at equal paths: see astra_sim/fabric/destination_order.hpp.
  void use_destination_order(std::vector<int> destination_order) { destination_order_ = std::move(destination_order); }
  // Routes that the topology names: [router * size + position]: channels on which packets for the position leave the router.
  void name_ways(std::vector<std::vector<int>> channels);

  // Throws std::invalid_argument if a node cannot reach another.
  void make();

  bool is_collapsed() const { return !collapsed_.empty(); }
  int quotient_channel(int r, int offset) const { return at(collapsed_, r * size_ + offset); }
  std::uint16_t entry(int r, int wanted) const { return at(table_, r * size_ + wanted); }
  // Whether some router has several outputs for some position.
  bool has_choices() const;
  // The cost of the links still to cross, or -1; not of collapsed dimensions.
  int distance(int r, int wanted) const { return at(distance_, r * size_ + wanted); }
  const std::vector<int>& distances() const { return distance_; }

  // Calls visit(place) for every output of a router, by place, that is on a shortest path, or on one that is named, to a position.
  template <class Visit>
  void each_shortest(int r, int wanted, Visit visit) const;
  // Calls visit(channel) for every channel that a packet for a position may take from a router, by the rules of the network.
  template <class Visit>
  void each_way(int r, int wanted, Visit visit) const;

 private:
  using Table = std::vector<std::uint16_t>;

  bool is_named() const { return !named_.empty(); }
  int routers() const { return layout_->routers(); }
  // The cost of the shortest path, or the most links of those that are named.
  void measure_distances();
  void measure_named();
  // Throws where a router of a node has no path to a position.
  void check() const;
  Table table_of_quotient() const;
  Table table_by_position() const;
  Table table_by_turn() const;
  Table table_by_name() const;
  // A table in which choose(router, position, places) selects one of several places; it may put them in another order.
  template <class Choose>
  Table table_by(Choose choose) const;
  // Of each router, the links of the dimension from the nearest position.
  std::vector<int> heights() const;
  // By height, the divisor of a destination before it chooses among several outputs.
  std::vector<std::size_t> strides(const std::vector<int>& height) const;

  const Layout* layout_;
  int d_;
  int size_;
  std::vector<int> collapsed_;           // [router * size + offset]: a channel; empty: not collapsed
  std::vector<int> destination_order_;   // [position]; empty: none
  std::vector<std::vector<int>> named_;  // [router * size + position]: channels; empty: shortest
  std::vector<int> distance_;            // [router * size + position]
  Table table_;                          // the same
};

template <class Visit>
void DimensionRoutes::each_shortest(int r, int wanted, Visit visit) const {
  const std::vector<int>& outputs = at(layout_->router, r).outputs;
  if (is_named()) {
    for (const int c : at(named_, r * size_ + wanted))
      visit(index(narrow<int>(std::find(outputs.begin(), outputs.end(), c) - outputs.begin())));
    return;
  }
  const int here = distance(r, wanted);
  if (here <= 0) return;
  for (std::size_t place = 0; place < outputs.size(); ++place) {
    const ChannelSpec& spec = at(layout_->channel, outputs[place]);
    if (spec.dimension == d_ && distance(spec.sink, wanted) == here - spec.cost) visit(place);
  }
}

template <class Visit>
void DimensionRoutes::each_way(int r, int wanted, Visit visit) const {
  const RouterSpec& spec = at(layout_->router, r);
  if (!spec.spray.empty()) {
    for (int c : spec.spray) visit(c);
  } else if (layout_->rules.choice() == RouteChoice::first) {
    const std::uint16_t place = entry(r, wanted) & TableEntry::kPlace;
    if (place < TableEntry::kUnreachable) visit(spec.outputs[place]);
  } else {
    each_shortest(r, wanted, [&](std::size_t place) { visit(spec.outputs[place]); });
  }
}

// Changes a table so that the links of a dimension are loaded evenly when every NPU sends as much to every other one.
void balance(const Layout& layout, const DimensionRoutes& routes, int size, std::vector<std::uint16_t>& table);

}  // namespace astra::packet
