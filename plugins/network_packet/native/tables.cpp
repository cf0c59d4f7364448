// Routing tables: by dimension, where a router sends a packet for a position of the dimension.

#include <algorithm>
#include <astra_sim/fabric/destination_order.hpp>
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
  make_addresses();
  make_tables();
  make_hops();
  make_classes();
}

void RoutingTables::fold(int d, std::vector<int> channels) {
  folded_.resize(sizes.size());
  at(folded_, d) = std::move(channels);
}

void RoutingTables::take_turns(int d, std::vector<int> turns) {
  turns_.resize(sizes.size());
  at(turns_, d) = std::move(turns);
}

void RoutingTables::name_ways(int d, std::vector<std::vector<int>> channels) {
  if (channels.size() != router.size() * index(at(sizes, d))) throw std::invalid_argument("named routes need an entry of each router");
  named_.resize(sizes.size());
  at(named_, d) = std::move(channels);
}

// Of a folded network: all numbers of the platform, the first dimension first; nodes are those without offsets, in order.
void RoutingTables::make_addresses() {
  if (!is_folded()) {
    for (int r : node_router) {
      node_at_.push_back(count_of(node_at_));
      for (std::size_t d = 0; d < sizes.size(); ++d) position_.push_back(coordinate_[index(r) * sizes.size() + d]);
    }
    return;
  }
  int all = 1;
  for (int size : sizes) all *= size;
  int node = 0;
  for (int address = 0; address < all; ++address) {
    int rest = address;
    bool at_node = true;
    for (int d = 0; d < count_of(sizes); ++d) {
      const int coordinate = rest % at(sizes, d);
      rest /= at(sizes, d);
      position_.push_back(coordinate);
      at_node = at_node && (coordinate == 0 || !is_folded(d));
    }
    node_at_.push_back(at_node ? node++ : -1);
  }
}

int RoutingTables::beyond(int d, Fold fold, int address) const {
  int stride = 1;
  for (int before = 0; before < d; ++before) stride *= at(sizes, before);
  const int size = at(sizes, d);
  const int offset = position(address, d);
  int left = 0;
  if (fold == Fold::right) left = offset == 0 ? size - 1 : offset - 1;
  if (fold == Fold::left) left = offset + 1 == size ? 0 : offset + 1;
  return address + (left - offset) * stride;
}

void RoutingTables::make_folded_table(int d) {
  const int size = at(sizes, d);
  std::vector<std::uint16_t> next(router.size() * index(size), kNoWay);
  for (int r = 0; r < routers(); ++r) {
    const std::vector<int>& outputs = at(router, r).outputs;
    for (int offset = 0; offset < size; ++offset) {
      const auto found = std::find(outputs.begin(), outputs.end(), folded_channel(d, r, offset));
      if (found != outputs.end()) at(next, r * size + offset) = narrow<std::uint16_t>(found - outputs.begin());
    }
  }
  table_.push_back(std::move(next));
  distance_.emplace_back();
}

bool RoutingTables::kept_ways_are_whole() const {
  for (int d = 0; d < count_of(sizes); ++d) {
    const std::vector<std::uint16_t>& table = at(table_, d);
    if (is_folded(d) || std::none_of(table.begin(), table.end(), [](std::uint16_t entry) { return entry != kNoWay && entry >= kSeveral; }))
      continue;
    const bool parts =
        std::any_of(channel.begin(), channel.end(), [d](const ChannelSpec& spec) { return spec.dimension == d && spec.flit_time.ps != 0; });
    if (parts || rules.choice == RouteChoice::random) return false;
  }
  return true;
}

void RoutingTables::make_tables() {
  for (int d = 0; d < count_of(sizes); ++d) {
    if (is_folded(d)) {
      make_folded_table(d);
      continue;
    }
    is_named(d) ? measure_named(d) : measure_distances(d);
    check_ways(d);
    std::vector<std::uint16_t> next = is_named(d) ? ways_by_name(d) : takes_turns(d) ? ways_by_turn(d) : ways_by_position(d);
    if (!takes_turns(d) && !is_named(d)) balance(d, next);  // turns keep apart what collectives send at a time
    table_.push_back(std::move(next));
  }
}

std::vector<std::uint16_t> RoutingTables::ways_by_position(int d) const {
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
  return next;
}

std::vector<std::uint16_t> RoutingTables::ways_by_turn(int d) const {
  const int size = at(sizes, d);
  const std::vector<int>& turns = at(turns_, d);
  std::vector<fabric::Link> links;
  std::vector<fabric::DestinationOrder::Numbered> positions;
  for (const ChannelSpec& spec : channel) {
    if (spec.dimension == d) links.push_back({spec.source, spec.sink});
  }
  for (int r = 0; r < routers(); ++r) {
    const int here = at(at(router, r).coordinates, d);
    if (here >= 0) positions.emplace_back(r, at(turns, here));
  }
  const fabric::DestinationOrder turn(fabric::Graph(routers(), 0, links), positions);
  std::vector<std::uint16_t> next(router.size() * index(size), kNoWay);
  std::vector<std::size_t> shortest;
  for (int r = 0; r < routers(); ++r) {
    auto sink = [&](std::size_t place) { return at(channel, at(at(router, r).outputs, place)).sink; };
    for (int wanted = 0; wanted < size; ++wanted) {
      shortest.clear();
      each_shortest(d, r, wanted, [&](std::size_t place) { shortest.push_back(place); });
      if (shortest.empty()) continue;
      std::stable_sort(shortest.begin(), shortest.end(), [&](std::size_t a, std::size_t b) { return sink(a) < sink(b); });
      const std::uint16_t several = shortest.size() > 1 ? kSeveral : 0;
      const std::size_t choice = turn.choose(r, index(at(turns, wanted)), sink(shortest.front()), sink(shortest.back()), shortest.size());
      at(next, r * size + wanted) = narrow<std::uint16_t>(shortest[choice]) | several;
    }
  }
  return next;
}

std::vector<std::uint16_t> RoutingTables::ways_by_name(int d) const {
  std::vector<std::uint16_t> next;
  for (int r = 0; r < routers(); ++r) {
    for (int wanted = 0; wanted < at(sizes, d); ++wanted) {
      std::vector<std::size_t> places;
      each_shortest(d, r, wanted, [&](std::size_t place) { places.push_back(place); });
      const std::uint16_t several = places.size() > 1 ? kSeveral : 0;
      next.push_back(places.empty() ? kNoWay : narrow<std::uint16_t>(narrow<std::uint16_t>(places.front()) | several));
    }
  }
  return next;
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

void RoutingTables::measure_named(int d) {
  const int size = at(sizes, d);
  std::vector<int> distance(router.size() * index(size), -1);
  for (int wanted = 0; wanted < size; ++wanted) {
    const auto measure = [&](const auto& self, int r) -> int {
      if (at(at(router, r).coordinates, d) == wanted) return at(distance, r * size + wanted) = 0;
      if (at(distance, r * size + wanted) >= 0) return at(distance, r * size + wanted);
      int most = -1;
      for (const int c : at(at(named_, d), r * size + wanted)) most = std::max(most, 1 + self(self, at(channel, c).sink));
      return at(distance, r * size + wanted) = most;
    };
    for (int r = 0; r < routers(); ++r) measure(measure, r);
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
  if (router.size() * node_at_.size() > kMostHops) return;
  std::vector<std::uint16_t> made;
  for (int r = 0; r < routers(); ++r) {
    for (int address = 0; address < addresses(); ++address) made.push_back(look_up(r, address));
  }
  hop_ = std::move(made);
  hops_of_router_ = addresses();
}

std::uint16_t RoutingTables::look_up(int r, int node) const {
  const int d = differing_dimension(r, node);
  if (d < 0) return kHere;
  const int wanted = position(node, d);
  return at(at(table_, d), r * at(sizes, d) + wanted);
}

std::vector<int> RoutingTables::next_hops(int r, int node) const {
  std::vector<int> found;
  const int d = differing_dimension(r, node);
  if (d < 0) return found;
  const int wanted = position(node, d);
  each_shortest(d, r, wanted, [&](std::size_t place) { found.push_back(at(router, r).outputs[place]); });
  return found;
}

}  // namespace astra::packet
