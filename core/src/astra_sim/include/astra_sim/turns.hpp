// Which of several equal ways a destination takes, where a topology says that destinations take turns (C++20).
//
// `turns.py` of the kernel is the same in Python, and says why.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace astra {

class Turns {
 public:
  // Of a graph of `nodes` nodes: its links (source and target), and the nodes of destinations with their turns.
  Turns(std::size_t nodes, const std::vector<std::pair<int, int>>& links, const std::vector<std::pair<int, int>>& turn_of_node)
      : height_(nodes, kUnknown), up_(nodes), turn_(nodes, 0) {
    std::size_t most = 0;
    std::vector<int> reached;
    for (const auto& [node, turn] : turn_of_node) {
      height_[of(node)] = 0;
      turn_[of(node)] = of(turn);
      reached.push_back(node);
      most = std::max(most, of(turn));
    }
    measure_heights(nodes, links, reached);
    for (const auto& [source, target] : links) {
      if (height_[of(target)] > height_[of(source)]) up_[of(source)].push_back(target);
    }
    set_strides(most);
    number_leaves(turn_of_node, most);
  }

  // Which of `ways` equal links a packet takes at a node for the destination of a turn: links in the order of the nodes that they lead to,
  // from `first` to `last`, and then of their numbers.
  std::size_t choose(int node, std::size_t turn, int first, int last, std::size_t ways) const {
    if (height_[of(node)] == 0) {
      const std::size_t own = turn_[of(node)];
      const bool beside = leaf_[own] == leaf_[turn];
      return (turn / stride_[0] + turn % stride_[0] + (beside ? own : leaf_[own])) % ways;
    }
    const bool down_to_one = first == last && height_[of(first)] < height_[of(node)];
    const int decides = down_to_one ? first : node;
    const std::size_t number = turn / stride_[of(height_[of(decides)])];
    return (down_to_one ? number % std::max<std::size_t>(1, up_[of(first)].size()) : number) % ways;
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

  // Switches next to destinations look at the lowest digit, destinations at what is left.
  void set_strides(std::size_t most_turn) {
    std::vector<std::size_t> most(of(*std::max_element(height_.begin(), height_.end())) + 1, 1);
    for (std::size_t node = 0; node < height_.size(); ++node) {
      std::size_t& at_height = most[of(height_[node])];
      at_height = std::max(at_height, up_[node].size());
    }
    stride_.assign(most.size(), 1);
    std::size_t stride = 1;
    for (std::size_t height = 1; height < most.size(); ++height) {
      stride_[height] = stride;
      stride = stride * most[height] <= most_turn ? stride * most[height] : 1;
    }
    stride_[0] = stride;
  }

  // Where links up from a node lead, of which there is a way further up.
  std::vector<int> onwards(int node) const {
    std::vector<int> found;
    for (int target : up_[of(node)]) {
      if (!up_[of(target)].empty()) found.push_back(target);
    }
    return found;
  }

  // A leaf is the first switch upwards that a destination shares with others. Without one, it has its own.
  void number_leaves(const std::vector<std::pair<int, int>>& turn_of_node, std::size_t most_turn) {
    std::vector<int> below(height_.size(), 0);
    for (std::vector<int> targets : up_) {
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      for (int target : targets) ++below[of(target)];
    }
    std::vector<std::pair<std::size_t, int>> leaf_of_turn;
    std::map<int, std::size_t> first;
    for (const auto& [destination, turn] : turn_of_node) {
      int node = destination;
      for (std::vector<int> up = onwards(node); !up.empty() && below[of(node)] < 2; up = onwards(node)) {
        node = *std::min_element(up.begin(), up.end());
      }
      leaf_of_turn.emplace_back(of(turn), node);
      const auto [place, is_new] = first.emplace(node, of(turn));
      if (!is_new) place->second = std::min(place->second, of(turn));
    }
    std::map<std::size_t, std::size_t> number;
    for (const auto& [node, turn] : first) number.emplace(turn, 0);
    std::size_t next = 0;
    for (auto& [turn, place] : number) place = next++;
    leaf_.assign(most_turn + 1, 0);
    for (const auto& [turn, node] : leaf_of_turn) leaf_[turn] = number.at(first.at(node));
  }

  std::vector<int> height_;           // of each node: links from the nearest destination
  std::vector<std::vector<int>> up_;  // of each node: where links lead to nodes of a greater height
  std::vector<std::size_t> turn_;     // of each destination, by node
  std::vector<std::size_t> stride_;   // of each height: what a turn is divided by
  std::vector<std::size_t> leaf_;     // by turn: the number of the leaf
};

}  // namespace astra
