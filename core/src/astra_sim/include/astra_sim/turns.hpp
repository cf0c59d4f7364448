// Which of several equal ways a destination takes, where a topology says that destinations take turns (C++20).
//
// `turns.py` of the kernel is the same in Python, and says why.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace astra {

class Turns {
 public:
  // Of a graph of `nodes` nodes: its links (source and target), and the nodes of destinations with their turns.
  Turns(std::size_t nodes, const std::vector<std::pair<int, int>>& links, const std::vector<std::pair<int, int>>& turn_of_node)
      : height_(nodes, kUnknown), links_up_(nodes, 0) {
    std::size_t destinations = 1;
    std::vector<int> reached;
    for (const auto& [node, turn] : turn_of_node) {
      height_[of(node)] = 0;
      reached.push_back(node);
      destinations = std::max(destinations, of(turn) + 1);
    }
    measure_heights(nodes, links, reached);
    set_strides(links, destinations);
  }

  // Which of `ways` equal links a packet takes at a node for the destination of a turn: links in the order of the nodes that they lead to,
  // from `first` to `last`, and then of their numbers.
  std::size_t choose(int node, std::size_t turn, int first, int last, std::size_t ways) const {
    const bool down_to_one = first == last && height_[of(first)] < height_[of(node)];
    const int decides = down_to_one ? first : node;
    const std::size_t number = turn / stride_[of(height_[of(decides)])];
    return (down_to_one ? number % std::max<std::size_t>(1, links_up_[of(first)]) : number) % ways;
  }

 private:
  static constexpr int kUnknown = -1;

  static std::size_t of(int number) { return static_cast<std::size_t>(number); }

  // From the destinations outwards, breadth first.
  void measure_heights(std::size_t nodes, const std::vector<std::pair<int, int>>& links, std::vector<int>& reached) {
    std::vector<std::vector<int>> targets(nodes);
    for (const auto& [source, target] : links) targets[of(source)].push_back(target);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const int node = reached[i];
      for (int target : targets[of(node)]) {
        if (height_[of(target)] != kUnknown) continue;
        height_[of(target)] = height_[of(node)] + 1;
        reached.push_back(target);
      }
    }
    for (int& height : height_) height = std::max(height, 0);
  }

  // Switches next to destinations look at the lowest digit, destinations at the highest.
  void set_strides(const std::vector<std::pair<int, int>>& links, std::size_t destinations) {
    for (const auto& [source, target] : links) {
      if (height_[of(target)] > height_[of(source)]) ++links_up_[of(source)];
    }
    std::vector<std::size_t> most(of(*std::max_element(height_.begin(), height_.end())) + 1, 1);
    for (std::size_t node = 0; node < height_.size(); ++node) {
      std::size_t& at_height = most[of(height_[node])];
      at_height = std::max(at_height, links_up_[node]);
    }
    stride_.assign(most.size(), 1);
    std::size_t stride = 1;
    for (std::size_t height = 1; height < most.size(); ++height) {
      stride_[height] = stride;
      stride = stride * most[height] < destinations ? stride * most[height] : 1;
    }
    stride_[0] = stride;
  }

  std::vector<int> height_;            // of each node: links from the nearest destination
  std::vector<std::size_t> links_up_;  // of each node: to nodes of a greater height
  std::vector<std::size_t> stride_;    // of each height: what a turn is divided by
};

}  // namespace astra
