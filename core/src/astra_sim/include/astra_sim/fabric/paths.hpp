// Paths of least cost through a graph, and the links with which they begin (C++20). `fabric/paths.py` of the kernel is the same in Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace astra::fabric {

// The distance of a node from which no path leads to the destination.
inline constexpr int kUnreachable = -1;

// Searches a graph from destinations back, nearest nodes first: Dijkstra's algorithm with a bucket for each distance (Dial 1969). Where all
// links cost the same, it goes breadth first.
class ShortestPaths {
 public:
  explicit ShortestPaths(int largest_cost = 1) : buckets_(index(largest_cost) + 1) {}

  // Fills `distance`, which holds kUnreachable for every node when the search begins, with the cost of the cheapest path from each node to
  // the nearest of some destinations.
  //
  // `expand(node, reach)` is called once for each node, when its distance is known. It calls `reach(before, cost)` for each link into the
  // node that may be used, which returns whether this is a cheaper path from `before` than those so far; and it returns whether to go on.
  // Of equal paths the first one stays. If it returns false, distances of nodes that are further away may be missing or too large.
  template <class Expand>
  void search(std::span<const int> destinations, std::vector<int>& distance, Expand&& expand) {
    std::size_t waiting = destinations.size();
    for (const int destination : destinations) {
      at(distance, destination) = 0;
      buckets_[0].push_back(destination);
    }
    for (int now = 0; waiting > 0; ++now) {
      auto& nearest = bucket(now);
      for (const int node : nearest) {
        --waiting;
        if (at(distance, node) != now) continue;  // a cheaper path was found since
        const auto reach = [&](auto before, int cost) {
          int& known = at(distance, before);
          if (known != kUnreachable && known <= now + cost) return false;
          known = now + cost;
          bucket(known).push_back(static_cast<int>(before));
          ++waiting;
          return true;
        };
        if (!expand(node, reach)) {
          for (auto& each : buckets_) each.clear();
          return;
        }
      }
      nearest.clear();
    }
  }

  template <class Expand>
  void search(int destination, std::vector<int>& distance, Expand&& expand) {
    search(std::span<const int>(&destination, 1), distance, std::forward<Expand>(expand));
  }

 private:
  // No link costs as much as there are buckets, so a bucket is never filled while it is emptied.
  std::vector<int>& bucket(int distance) { return buckets_[index(distance) % buckets_.size()]; }

  std::vector<std::vector<int>> buckets_;
};

// Calls `visit(link)` for each link, in the order of the graph, with which a path of least cost leaves a node, by the distances of a
// search. At a distance of 0 there is none.
//
// `may_enter(node)` is true if messages may pass through a node or end there: a host that does not forward has a distance, too, that of
// its own messages. `is_up(link)` is true for usable links.
template <class MayEnter, class IsUp, class Visit>
void each_next_link(const Graph& graph, const std::vector<int>& distance, int node, MayEnter may_enter, IsUp is_up, Visit visit) {
  const int left = at(distance, node);
  if (left <= 0) return;
  for (const int number : graph.leaving(node)) {
    const Link& link = graph.link(number);
    const int rest = at(distance, link.target);
    if (rest != kUnreachable && rest == left - link.cost && may_enter(link.target) && is_up(number)) visit(number);
  }
}

}  // namespace astra::fabric
