// One link for each node and destination, that of `TieByDestination`, if hosts forward (C++20): `DestinationRoutes` of
// `fabric/routes.py` of the kernel is the same in Python.
//
// For networks that ask again and again: a link is looked up by destination and node, and found when it is first asked for. The cache of
// a large graph is bounded; then links are found again, which is fast where ends are near each other.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "routes.hpp"
#include "ties.hpp"

namespace astra::fabric {

class DestinationRoutes {
 public:
  // Of hosts with these numbers (empty: they have none), or of the routes that a topology names.
  template <class Links>
  DestinationRoutes(int nodes, int hosts, const Links& links, const std::vector<int>& numbers, NamedLinks named)
      : graph_(nodes, hosts, links, LinkOrder::target),
        named_(std::move(named)),
        routes_(graph_, HostForwarding::always, &named_),
        tie_(graph_, numbers, false),
        rows_(index(hosts)) {}
  DestinationRoutes(const DestinationRoutes&) = delete;  // its parts refer to each other

  int target(int link) const { return graph_.target(link); }

  // The link on which a message leaves a node for a host; kUnreachable: there is none.
  int next_link(int node, int destination) {
    std::vector<int>& row = at(rows_, destination);
    if (row.empty()) add(row);
    int& link = at(row, node);
    if (link == kUnknown) link = find(node, destination);
    return link;
  }

 private:
  static constexpr int kUnknown = -2;
  static constexpr std::size_t kMostLinks = std::size_t{1} << 24;

  void add(std::vector<int>& row) {
    held_ += index(graph_.nodes());
    if (held_ > kMostLinks) {
      for (std::vector<int>& each : rows_) std::vector<int>().swap(each);
      held_ = index(graph_.nodes());
    }
    row.assign(index(graph_.nodes()), kUnknown);
  }

  int find(int node, int destination) {
    const Row row = routes_.row(node, destination);
    if (!row) return kUnreachable;
    routes_.next_links(row, node, links_);
    if (links_.empty()) return kUnreachable;
    return links_[links_.size() > 1 && !routes_.is_named() ? tie_(node, destination, links_) : 0];
  }

  Graph graph_;
  NamedLinks named_;
  Routes routes_;
  TieByDestination tie_;
  std::vector<std::vector<int>> rows_;  // of each destination, by node
  std::size_t held_ = 0;                // links of all rows
  std::vector<int> links_;
};

}  // namespace astra::fabric
