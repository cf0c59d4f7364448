// Routing tables: by dimension, where a router sends a packet for a position of the dimension.

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>

#include "routing_tables.hpp"

namespace astra::packet {

void RoutingTables::make() {
  for (const RouterSpec& spec : router) {
    if (spec.outputs.size() >= kNoWay) throw std::invalid_argument("a router has too many links");
    coordinate_.insert(coordinate_.end(), spec.coordinates.begin(), spec.coordinates.end());
  }
  make_tables();
  make_hops();
  make_classes();
}

void RoutingTables::make_tables() {
  for (int d = 0; d < count_of(sizes); ++d) {
    measure_distances(d);
    check_ways(d);
    const int size = at(sizes, d);
    const std::vector<int> height = heights(d);
    const std::vector<std::size_t> stride = strides(d, height);
    std::vector<std::uint16_t> next(router.size() * index(size), kNoWay);
    std::vector<std::size_t> shortest;
    for (int r = 0; r < routers(); ++r) {
      for (int wanted = 0; wanted < size; ++wanted) {
        shortest.clear();
        each_shortest(d, r, wanted, [&](std::size_t place) { shortest.push_back(place); });
        if (shortest.empty()) continue;
        const std::uint16_t several = shortest.size() > 1 ? kSeveral : 0;
        const std::size_t choice = index(wanted) / at(stride, at(height, r)) % shortest.size();
        at(next, r * size + wanted) = narrow<std::uint16_t>(shortest[choice]) | several;
      }
    }
    balance(d, next);
    table_.push_back(std::move(next));
  }
}

// From all routers that have the wanted coordinate backwards over the links of the dimension, the nearest first (Dijkstra).
void RoutingTables::measure_distances(int d) {
  const int size = at(sizes, d);
  std::vector<int> distance(router.size() * index(size), -1);
  using Reached = std::pair<int, int>;  // distance, router
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> reached;
  for (int wanted = 0; wanted < size; ++wanted) {
    auto found = [&](int r, int far) {
      int& known = at(distance, r * size + wanted);
      if (known >= 0 && known <= far) return;
      known = far;
      reached.emplace(far, r);
    };
    for (int r = 0; r < routers(); ++r) {
      if (at(at(router, r).coordinates, d) == wanted) found(r, 0);
    }
    while (!reached.empty()) {
      const auto [far, r] = reached.top();
      reached.pop();
      if (far > at(distance, r * size + wanted)) continue;
      for (int c : at(router, r).inputs) {
        if (at(channel, c).dimension == d) found(at(channel, c).source, far + at(channel, c).cost);
      }
    }
  }
  distance_.push_back(std::move(distance));
}

void RoutingTables::check_ways(int d) const {
  const int size = at(sizes, d);
  for (int r : node_router) {
    for (int wanted = 0; wanted < size; ++wanted) {
      if (at(at(distance_, d), r * size + wanted) >= 0) continue;
      throw std::invalid_argument("dimension " + std::to_string(d) + ": there is no route from position " +
                                  std::to_string(at(at(router, r).coordinates, d)) + " to position " + std::to_string(wanted));
    }
  }
}

// Of each router, the links of the dimension from the nearest position: 0 for positions, 1 for switches next to them, and so on.
std::vector<int> RoutingTables::heights(int d) const {
  std::vector<int> height(router.size(), -1);
  std::vector<int> reached;
  for (int r = 0; r < routers(); ++r) {
    if (at(at(router, r).coordinates, d) < 0) continue;
    at(height, r) = 0;
    reached.push_back(r);
  }
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (int c : at(router, reached[i]).outputs) {
      const ChannelSpec& spec = at(channel, c);
      if (spec.dimension != d || at(height, spec.sink) >= 0) continue;
      at(height, spec.sink) = at(height, reached[i]) + 1;
      reached.push_back(spec.sink);
    }
  }
  for (int& of_router : height) of_router = std::max(of_router, 0);
  return height;
}

// By height, what a destination is divided by before it chooses among several ways. Routers of each height look at a digit of the
// destination that those below them have not looked at, so that destinations spread over all ways up (on a k-ary n-tree: d-mod-k).
std::vector<std::size_t> RoutingTables::strides(int d, const std::vector<int>& height) const {
  const int size = at(sizes, d);
  std::vector<std::size_t> ways(index(*std::max_element(height.begin(), height.end())) + 1, 1);
  for (int r = 0; r < routers(); ++r) {
    std::size_t& most = at(ways, at(height, r));
    for (int wanted = 0; wanted < size; ++wanted) {
      std::size_t count = 0;
      each_shortest(d, r, wanted, [&](std::size_t) { ++count; });
      most = std::max(most, count);
    }
  }
  std::vector<std::size_t> stride(ways.size(), 1);
  for (std::size_t h = 1; h < ways.size(); ++h) {
    stride[h] = stride[h - 1] * ways[h - 1];
    if (stride[h] >= index(size)) stride[h] = 1;  // no digit is left
  }
  return stride;
}

void RoutingTables::make_hops() {
  if (router.size() * node_router.size() > kMostHops) return;
  std::vector<std::uint16_t> made;
  for (int r = 0; r < routers(); ++r) {
    for (int node = 0; node < nodes(); ++node) made.push_back(look_up(r, node));
  }
  hop_ = std::move(made);
  hops_of_router_ = nodes();
}

std::uint16_t RoutingTables::look_up(int r, int node) const {
  const int d = differing_dimension(r, node);
  if (d < 0) return kHere;
  const int wanted = coordinate_[index(at(node_router, node)) * sizes.size() + index(d)];
  return at(at(table_, d), r * at(sizes, d) + wanted);
}

std::vector<int> RoutingTables::next_hops(int r, int node) const {
  std::vector<int> found;
  const int d = differing_dimension(r, node);
  if (d < 0) return found;
  const int wanted = at(at(router, at(node_router, node)).coordinates, d);
  each_shortest(d, r, wanted, [&](std::size_t place) { found.push_back(at(router, r).outputs[place]); });
  return found;
}

}  // namespace astra::packet
