#include "routing/vc_classes.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

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

// By channel of a dimension, the channels that packets may take next in it.
std::vector<std::vector<int>> followers(const Layout& layout, const DimensionRoutes& routes, int d) {
  Graph graph(layout.channel.size());
  std::vector<int> seen_for(layout.channel.size(), -1);
  std::vector<int> open;
  for (int wanted = 0; wanted < at(layout.sizes, d); ++wanted) {
    auto take = [&](int c) {
      if (at(seen_for, c) == wanted) return;
      at(seen_for, c) = wanted;
      open.push_back(c);
    };
    for (int r : layout.node_router) {
      if (layout.position(r, d) != wanted) routes.each_way(r, wanted, take);
    }
    while (!open.empty()) {
      const int c = open.back();
      open.pop_back();
      const int r = at(layout.channel, c).sink;
      if (layout.position(r, d) == wanted) continue;
      routes.each_way(r, wanted, [&](int next) {
        std::vector<int>& known = at(graph, c);
        if (std::find(known.begin(), known.end(), next) == known.end()) known.push_back(next);
        take(next);
      });
    }
  }
  return graph;
}

// Classes of virtual channels that a packet has in a dimension, at most.
int most_classes(const Layout& layout, const DimensionRoutes& routes, int d) {
  const int size = at(layout.sizes, d);
  int most = 1;
  std::vector<int> classes(layout.channel.size());  // from a channel on
  for (int wanted = 0; wanted < size; ++wanted) {
    auto far = [&](int r) { return routes.distance(r, wanted); };
    std::vector<int> nearest_first;
    for (int r = 0; r < layout.routers(); ++r) {
      if (far(r) > 0) nearest_first.push_back(r);
    }
    std::stable_sort(nearest_first.begin(), nearest_first.end(), [&](int a, int b) { return far(a) < far(b); });
    for (int r : nearest_first) {
      routes.each_way(r, wanted, [&](int c) {
        at(classes, c) = 1;
        const int next = at(layout.channel, c).sink;
        if (far(next) == 0) return;
        routes.each_way(next, wanted, [&](int follower) {
          const int is_later = at(layout.channel, follower).order <= at(layout.channel, c).order;
          at(classes, c) = std::max(at(classes, c), at(classes, follower) + is_later);
        });
      });
    }
    for (int r : layout.node_router) {
      if (far(r) > 0) routes.each_way(r, wanted, [&](int c) { most = std::max(most, at(classes, c)); });
    }
  }
  return most;
}

// If no order is given: links to routers of higher numbers before those to lower ones, along them. So a packet changes its class where
// it turns from down to up (as up*/down* routing forbids, Schroeder et al. 1991).
void order_links(const Layout& layout, int d) {
  for (ChannelSpec& spec : layout.channel) {
    if (spec.dimension != d || spec.order >= 0) continue;
    spec.order = spec.source < spec.sink ? spec.source : 2 * layout.routers() - spec.source;
  }
}

}  // namespace

int classes_needed(const Layout& layout, const DimensionRoutes& routes, int d) {
  if (layout.rules.vc_classes() == VcClasses::none && !layout.rules.bubble()) return 1;
  const bool ring =
      std::any_of(layout.channel.begin(), layout.channel.end(), [d](const ChannelSpec& spec) { return spec.dimension == d && spec.ring; });
  if (ring && layout.rules.bubble()) return 1;
  if (!ring && routes.is_collapsed()) return 1;  // its paths have one link, or two by a switch
  if (!ring && !has_circle(followers(layout, routes, d))) return 1;
  order_links(layout, d);
  const int classes = ring ? 2 : most_classes(layout, routes, d);
  if (classes > std::numeric_limits<std::uint8_t>::max()) throw std::invalid_argument("the routes need too many virtual channels");
  return classes;
}

}  // namespace astra::packet
