// The choice among several paths of equal cost by destination, if a topology numbers its destinations: d-mod-k (C++20).
//
// `fabric/destination_order.py` of the kernel is the same in Python, with the reasons.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace astra::fabric {

class DestinationOrder {
 public:
  // A node that is a destination, and its number.
  using Numbered = std::pair<int, int>;

  // Several nodes may have one number: those of a position in all groups of a dimension.
  DestinationOrder(const Graph& graph, const std::vector<Numbered>& destinations)
      : height_(index(graph.nodes()), kUnknown), up_(index(graph.nodes())), number_(index(graph.nodes()), 0) {
    std::size_t largest = 0;
    for (const auto& [node, number] : destinations) {
      at(number_, node) = index(number);
      largest = std::max(largest, index(number));
    }
    measure_heights(graph, destinations);
    for (int link = 0; link < graph.links(); ++link) {
      const auto& [source, target, _] = graph.link(link);
      if (at(height_, target) > at(height_, source)) at(up_, source).push_back(target);
    }
    set_strides(largest);
    number_leaves(destinations, largest);
  }

  // Of destinations 0, 1, 2, ... with these numbers.
  DestinationOrder(const Graph& graph, const std::vector<int>& numbers) : DestinationOrder(graph, numbered(numbers)) {}

  // Which of `count` links of equal cost a packet takes at a node for the destination of a number: links in the order of the nodes that
  // they lead to, from `first` to `last`, and then of their numbers.
  //
  // Several links down to one node are taken as the links up from there are, so that messages separated on the way up stay separated.
  std::size_t choose(int node, std::size_t number, int first, int last, std::size_t count) const {
    if (at(height_, node) == 0) {
      const std::size_t own = at(number_, node);
      const bool beside = leaf_[own] == leaf_[number];
      return (number / stride_[0] + number % stride_[0] + (beside ? own : leaf_[own])) % count;
    }
    const bool down_to_one = first == last && at(height_, first) < at(height_, node);
    const std::size_t digits = number / at(stride_, at(height_, down_to_one ? first : node));
    return (down_to_one ? digits % std::max<std::size_t>(1, at(up_, first).size()) : digits) % count;
  }

 private:
  static constexpr int kUnknown = -1;

  static std::vector<Numbered> numbered(const std::vector<int>& numbers) {
    std::vector<Numbered> destinations;
    for (int node = 0; node < count_of(numbers); ++node) destinations.emplace_back(node, at(numbers, node));
    return destinations;
  }

  // From the destinations outwards, breadth first.
  void measure_heights(const Graph& graph, const std::vector<Numbered>& destinations) {
    std::vector<int> reached;
    for (const auto& [node, _] : destinations) {
      at(height_, node) = 0;
      reached.push_back(node);
    }
    for (std::size_t place = 0; place < reached.size(); ++place) {
      const int node = reached[place];
      for (const int link : graph.leaving(node)) {
        const int target = graph.target(link);
        if (at(height_, target) != kUnknown) continue;
        at(height_, target) = at(height_, node) + 1;
        reached.push_back(target);
      }
    }
    for (int& height : height_) height = std::max(height, 0);
  }

  // Switches next to destinations use the lowest digit, destinations the quotient.
  void set_strides(std::size_t largest) {
    std::vector<std::size_t> most(index(*std::max_element(height_.begin(), height_.end())) + 1, 1);
    for (std::size_t node = 0; node < height_.size(); ++node) {
      std::size_t& at_height = at(most, height_[node]);
      at_height = std::max(at_height, up_[node].size());
    }
    stride_.assign(most.size(), 1);
    std::size_t stride = 1;
    for (std::size_t height = 1; height < most.size(); ++height) {
      stride_[height] = stride;
      stride = stride * most[height] <= largest ? stride * most[height] : 1;  // no digit is left
    }
    stride_[0] = stride;
  }

  // The lowest node up from a node from which there is a way further up; kUnknown: there is none.
  int onwards(int node) const {
    int lowest = kUnknown;
    for (const int target : at(up_, node)) {
      if (!at(up_, target).empty() && (lowest == kUnknown || target < lowest)) lowest = target;
    }
    return lowest;
  }

  // A leaf is the first switch upwards that a destination shares with others. Without one, it has its own.
  void number_leaves(const std::vector<Numbered>& destinations, std::size_t largest) {
    std::vector<int> below(height_.size(), 0);
    for (std::vector<int> targets : up_) {
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      for (const int target : targets) ++at(below, target);
    }
    std::vector<std::pair<std::size_t, int>> leaf_of_number;
    std::map<int, std::size_t> first;  // of each leaf, the lowest number
    for (const auto& [destination, number] : destinations) {
      int node = destination;
      for (int up = onwards(node); up != kUnknown && at(below, node) < 2; up = onwards(node)) node = up;
      leaf_of_number.emplace_back(index(number), node);
      const auto [lowest, is_new] = first.emplace(node, index(number));
      if (!is_new) lowest->second = std::min(lowest->second, index(number));
    }
    std::map<std::size_t, std::size_t> place;
    for (const auto& [_, number] : first) place.emplace(number, 0);
    std::size_t next = 0;
    for (auto& [_, value] : place) value = next++;
    leaf_.assign(largest + 1, 0);
    for (const auto& [number, node] : leaf_of_number) leaf_[number] = place.at(first.at(node));
  }

  std::vector<int> height_;           // of each node: links from the nearest destination
  std::vector<std::vector<int>> up_;  // of each node: where links lead to nodes of a greater height
  std::vector<std::size_t> number_;   // of each destination, by node
  std::vector<std::size_t> stride_;   // by height, the divisor of a number
  std::vector<std::size_t> leaf_;     // by number: that of the leaf
};

}  // namespace astra::fabric
