// Rules that break ties: which of several links of equal cost a message takes at a node (C++20). `fabric/ties.py` of the kernel has those
// by destination in Python.
//
// A rule is a function of a node, a destination and the links of a set in order, two at least: see `Routes::walk`. It returns the place of
// the link.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "destination_order.hpp"
#include "graph.hpp"

namespace astra::fabric {

// The first link of the set.
struct TieFirst {
  std::size_t operator()(int, int, std::span<const int>) const { return 0; }
};

// The link of the destination's number (d-mod-k), if the topology numbers destinations, by position; else the first, or with `upwards`
// the first that leads to a node of a higher number: on a ring both directions may be as short. The graph lists links by target.
class TieByDestination {
 public:
  TieByDestination(const Graph& graph, const std::vector<int>& numbers, bool upwards)
      : graph_(&graph), numbers_(numbers), upwards_(upwards) {
    if (!numbers_.empty()) order_.emplace(graph, numbers_);
  }

  std::size_t operator()(int node, int destination, std::span<const int> links) const {
    if (order_) {
      const int first = graph_->target(links.front()), last = graph_->target(links.back());
      return order_->choose(node, index(at(numbers_, destination)), first, last, links.size());
    }
    if (!upwards_) return 0;
    const auto up = std::find_if(links.begin(), links.end(), [&](int link) { return graph_->target(link) > node; });
    return up == links.end() ? 0 : index(up - links.begin());
  }

 private:
  const Graph* graph_;
  std::vector<int> numbers_;
  bool upwards_;
  std::optional<DestinationOrder> order_;
};

// SplitMix64 (Steele, Lea, Flood 2014): mixes the bits of a number.
constexpr std::uint64_t mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

// A link by a hash of the ends of the whole message and of the node, as equal-cost multi-path routing (ECMP) does.
class TieByHash {
 public:
  TieByHash(int source, int destination, std::uint64_t seed) : pair_(mixed(mixed(seed ^ bits(source)) ^ bits(destination))) {}

  std::size_t operator()(int node, int, std::span<const int> links) const { return mixed(pair_ ^ (bits(node) << 32)) % links.size(); }

 private:
  static constexpr std::uint64_t bits(int number) { return static_cast<std::uint64_t>(number); }

  std::uint64_t pair_;
};

}  // namespace astra::fabric
