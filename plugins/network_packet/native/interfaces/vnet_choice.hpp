// Which virtual network carries a message. A network declares its rule once, when it is built.
//
// Messages in different virtual networks share links at most, never a virtual channel. So the rule decides which messages can block each
// other, and in Garnet, where every virtual network has rings of its own, which way round they go.
#pragma once

#include <utility>
#include <variant>
#include <vector>

namespace astra::packet {

class VnetChoice {
 public:
  // All messages share one virtual network.
  static VnetChoice single() { return VnetChoice(Single{}); }
  // One for each dimension: that of the last dimension in which source and destination differ. By dimension: the NPUs of one step along it,
  // and the size.
  static VnetChoice by_last_dimension(std::vector<std::pair<int, int>> dimensions) {
    return VnetChoice(ByLastDimension{std::move(dimensions)});
  }
  // That which the table names for the queue of the system layer from which a message comes. Throws std::invalid_argument where it names
  // one below 0.
  static VnetChoice by_queue(std::vector<int> vnet_of_queue);

  // The virtual network of a message; `queue` is below 0 if it comes from none. kNone: there is none for that queue. kNearest: the rule
  // goes by queue and the message comes from none, so it takes the virtual network with the shortest way.
  static constexpr int kNone = -1;
  static constexpr int kNearest = -2;
  int vnet_of(int source, int destination, int queue) const;
  // Virtual networks that the rule can name: all are below this.
  int end() const;

 private:
  struct Single {
    int vnet_of(int source, int destination, int queue) const;
    int end() const { return 1; }
  };
  struct ByLastDimension {
    std::vector<std::pair<int, int>> dimensions;
    int vnet_of(int source, int destination, int queue) const;
    int end() const { return count_of(dimensions); }
  };
  struct ByQueue {
    std::vector<int> vnet_of_queue;
    int vnet_of(int source, int destination, int queue) const;
    int end() const;
  };
  using Rule = std::variant<Single, ByLastDimension, ByQueue>;

  explicit VnetChoice(Rule rule) : rule_(std::move(rule)) {}

  Rule rule_;
};

}  // namespace astra::packet
