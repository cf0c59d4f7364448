// What a packet holds while it waits for what. Routes whose dependencies form a circle can deadlock; classes of virtual channels, which a
// packet passes upwards only, cut the circles (Dally and Seitz 1987).

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "network/shape.hpp"

namespace astra::packet {

namespace {

using Graph = std::vector<std::vector<int>>;  // by vertex, those that follow

// Whether a depth-first search comes back to its own path.
bool has_circle(const Graph& graph) {
  enum class Seen : std::uint8_t { no, on_path, done };
  std::vector<Seen> seen(graph.size(), Seen::no);
  std::vector<std::pair<int, std::size_t>> path;  // vertex, and the next of its followers to look at
  for (int start = 0; start < count_of(graph); ++start) {
    if (at(seen, start) != Seen::no) continue;
    at(seen, start) = Seen::on_path;
    path.emplace_back(start, 0);
    while (!path.empty()) {
      auto& [vertex, next] = path.back();
      if (next == at(graph, vertex).size()) {
        at(seen, vertex) = Seen::done;
        path.pop_back();
        continue;
      }
      const int follower = at(graph, vertex)[next++];
      if (at(seen, follower) == Seen::on_path) return true;
      if (at(seen, follower) == Seen::done) continue;
      at(seen, follower) = Seen::on_path;
      path.emplace_back(follower, 0);
    }
  }
  return false;
}

}  // namespace

template <class Visit>
void RoutingTables::each_way(int d, int r, int wanted, Visit visit) const {
  const RouterSpec& spec = at(router, r);
  if (!spec.spray.empty()) {
    for (int c : spec.spray) visit(c);
  } else if (rules.choice() == RouteChoice::first) {
    const std::uint16_t place = at(at(table_, d), r * at(sizes, d) + wanted) & kPlace;
    if (place < kNoWay) visit(spec.outputs[place]);
  } else {
    each_shortest(d, r, wanted, [&](std::size_t place) { visit(spec.outputs[place]); });
  }
}

void RoutingTables::make_classes() {
  classes_.assign(sizes.size(), 1);
  if (rules.vc_classes() == VcClasses::none && !rules.bubble()) return;
  for (int d = 0; d < count_of(sizes); ++d) {
    const bool ring =
        std::any_of(channel.begin(), channel.end(), [d](const ChannelSpec& spec) { return spec.dimension == d && spec.ring; });
    if (ring && rules.bubble()) continue;
    if (!ring && is_folded(d)) continue;  // its ways have one link, or two by a switch
    if (!ring && !has_circle(followers(d))) continue;
    order_links(d);
    at(classes_, d) = ring ? 2 : most_classes(d);
    if (at(classes_, d) > std::numeric_limits<std::uint8_t>::max())
      throw std::invalid_argument("the routes need too many virtual channels");
  }
}

// Where no order is given: links to routers of higher numbers before those to lower ones, along them. So a packet changes its class where
// it turns from down to up (as up*/down* routing forbids, Schroeder et al. 1991).
void RoutingTables::order_links(int d) {
  for (ChannelSpec& spec : channel) {
    if (spec.dimension != d || spec.order >= 0) continue;
    spec.order = spec.source < spec.sink ? spec.source : 2 * routers() - spec.source;
  }
}

// By channel of a dimension, the channels that packets may take next in it.
std::vector<std::vector<int>> RoutingTables::followers(int d) const {
  Graph graph(channel.size());
  std::vector<int> seen_for(channel.size(), -1);
  std::vector<int> open;
  for (int wanted = 0; wanted < at(sizes, d); ++wanted) {
    auto take = [&](int c) {
      if (at(seen_for, c) == wanted) return;
      at(seen_for, c) = wanted;
      open.push_back(c);
    };
    for (int r : node_router) {
      if (at(at(router, r).coordinates, d) != wanted) each_way(d, r, wanted, take);
    }
    while (!open.empty()) {
      const int c = open.back();
      open.pop_back();
      const int r = at(channel, c).sink;
      if (at(at(router, r).coordinates, d) == wanted) continue;
      each_way(d, r, wanted, [&](int next) {
        std::vector<int>& known = at(graph, c);
        if (std::find(known.begin(), known.end(), next) == known.end()) known.push_back(next);
        take(next);
      });
    }
  }
  return graph;
}

// Classes of virtual channels that a packet has in a dimension, at most.
int RoutingTables::most_classes(int d) const {
  const int size = at(sizes, d);
  int most = 1;
  std::vector<int> classes(channel.size());  // from a channel on
  for (int wanted = 0; wanted < size; ++wanted) {
    auto far = [&](int r) { return at(at(distance_, d), r * size + wanted); };
    std::vector<int> nearest_first;
    for (int r = 0; r < routers(); ++r) {
      if (far(r) > 0) nearest_first.push_back(r);
    }
    std::stable_sort(nearest_first.begin(), nearest_first.end(), [&](int a, int b) { return far(a) < far(b); });
    for (int r : nearest_first) {
      each_way(d, r, wanted, [&](int c) {
        at(classes, c) = 1;
        const int next = at(channel, c).sink;
        if (far(next) == 0) return;
        each_way(d, next, wanted, [&](int follower) {
          const int turns = at(channel, follower).order <= at(channel, c).order;
          at(classes, c) = std::max(at(classes, c), at(classes, follower) + turns);
        });
      });
    }
    for (int r : node_router) {
      if (far(r) > 0) each_way(d, r, wanted, [&](int c) { most = std::max(most, at(classes, c)); });
    }
  }
  return most;
}

// Follows the packets of every node and virtual network from all interfaces on, with every choice that routers have.
std::vector<Dependency> dependencies(const Shape& shape) {
  std::vector<Dependency> found;
  for (int node = 0; node < shape.nodes(); ++node) {
    for (int vnet = 0; vnet < shape.rules.vnets; ++vnet) {
      std::vector<std::pair<int, int>> open;  // channel, class
      std::vector<bool> seen(shape.channel.size() * 256, false);
      auto take = [&](int c, int vc_class) {
        const std::size_t place = index(c * 256 + vc_class);
        if (!seen[place]) open.emplace_back(c, vc_class);
        seen[place] = true;
      };
      for (int source = 0; source < shape.nodes(); ++source) {
        const Shape::Lanes& lanes = shape.lanes_of(source, vnet);
        for (int l = lanes.first; l < lanes.end(); ++l) take(at(shape.lane, l).out, 0);
      }
      while (!open.empty()) {
        const auto [in, before] = open.back();
        open.pop_back();
        const int r = at(shape.channel, in).sink;
        const int d = shape.routes.differing_dimension(r, node);
        if (d < 0) continue;
        shape.routes.each_way(d, r, at(at(shape.router, at(shape.node_router, node)).coordinates, d),
                              [&, in = in, before = before](int out) {
                                const ChannelSpec& way = at(shape.channel, out);
                                if (vnet < way.first_vnet || vnet >= way.first_vnet + way.vnets) return;
                                const int after = shape.next_class(in, out, node, before);
                                if (at(shape.channel, in).dimension >= 0) {
                                  const auto [first, end] = shape.vcs_of(in, vnet, before);
                                  const auto [next_first, next_end] = shape.vcs_of(out, vnet, after);
                                  found.push_back({in, first, end, out, next_first, next_end});
                                }
                                take(out, after);
                              });
      }
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
    }
  }
  return found;
}

}  // namespace astra::packet
