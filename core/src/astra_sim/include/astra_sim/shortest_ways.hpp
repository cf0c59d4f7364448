// Ways of least cost through a graph: what networks that simulate links find their routes by (C++20).
//
// `shortest_paths.py` of the kernel is the same in Python. A cost is a whole number from 1 to 255, as `Fabric` has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace astra {

// The largest `cost` of links, for which ShortestWays is made; 1 where there are none.
template <class Links>
int largest_cost(const Links& links) {
  int largest = 1;
  for (const auto& link : links) largest = std::max(largest, link.cost);
  return largest;
}

// Searches a graph from a destination back, nearest nodes first: Dijkstra's algorithm with a bucket for each distance (Dial 1969). Where
// all links cost the same, it goes breadth first.
class ShortestWays {
 public:
  static constexpr int kNoWay = -1;

  explicit ShortestWays(int largest_cost = 1) : buckets_(static_cast<std::size_t>(largest_cost) + 1) {}

  // Fills `distance`, which holds kNoWay for every node when the search begins, with the cost of the cheapest way from each node.
  //
  // `expand(node, reach)` is called once for each node, when its distance is known. It calls `reach(before, cost)` for each link into the
  // node that may be used, which returns whether this is a cheaper way from `before` than those so far; and it returns whether to go on. Of
  // equal ways the first one stays. Where it returns false, distances of nodes that are further away may be missing or too large.
  template <class Node, class Expand>
  void search(Node destination, std::vector<int>& distance, Expand&& expand) {
    std::size_t waiting = 1;
    distance[static_cast<std::size_t>(destination)] = 0;
    buckets_[0].push_back(static_cast<std::uint32_t>(destination));
    for (int now = 0; waiting > 0; ++now) {
      auto& nearest = bucket(now);
      for (const std::uint32_t node : nearest) {
        --waiting;
        if (distance[node] != now) continue;  // a cheaper way was found since
        const auto reach = [&](auto before, int cost) {
          int& known = distance[static_cast<std::size_t>(before)];
          if (known != kNoWay && known <= now + cost) return false;
          known = now + cost;
          bucket(known).push_back(static_cast<std::uint32_t>(before));
          ++waiting;
          return true;
        };
        if (!expand(static_cast<Node>(node), reach)) {
          for (auto& each : buckets_) each.clear();
          return;
        }
      }
      nearest.clear();
    }
  }

 private:
  // No link costs as much as there are buckets, so a bucket is never filled while it is emptied.
  std::vector<std::uint32_t>& bucket(int distance) { return buckets_[static_cast<std::size_t>(distance) % buckets_.size()]; }

  std::vector<std::vector<std::uint32_t>> buckets_;
};

}  // namespace astra
