// Routes of least cost: which links lead on to a destination (C++20). `fabric/routes.py` of the kernel is the same in Python.
//
// The set of next links of a node and a destination is the same for all networks. It follows from the costs of links, from the links that
// are up, and from whether hosts forward; or from the topology, if it names its routes. Which of them a message takes is a rule on top
// (ties.hpp), and a network's additions (virtual channels, adaptive routing) are its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paths.hpp"

namespace astra::fabric {

// Whether messages pass through hosts (NPUs): wherever that is cheaper, if no switches lead on, or never. Without switches those that
// forward if needed always do.
enum class HostForwarding : std::uint8_t { if_needed, always, never };

// The links that a topology names, by node * hosts + destination: see `Topology.next_links`. Empty: it names none.
using NamedLinks = std::vector<std::vector<int>>;

// The way to a destination: the cost from each node, or the most links where routes are named; and whether hosts forward there. False where
// there is no route. Valid until `Routes` is asked for another.
struct Row {
  int destination = 0;
  bool through_hosts = false;
  const std::vector<int>* distance = nullptr;

  explicit operator bool() const { return distance != nullptr; }
};

// The sets of next links of all nodes to one destination.
struct NextLinks {
  std::vector<int> first{0};  // of each node, and behind the last
  std::vector<int> links;

  std::span<const int> operator[](int node) const { return {links.data() + at(first, node), links.data() + at(first, node + 1)}; }
};

class Routes {
 public:
  // Of `row` and `next_links`: a message from wherever.
  static constexpr int kAnySource = -1;

  // Graph and named links stay where they are for as long as this does.
  Routes(const Graph& graph, HostForwarding forwarding, const NamedLinks* named = nullptr)
      : graph_(&graph),
        forwarding_(forwarding),
        named_(named && !named->empty() ? named : nullptr),
        used_named_(named_),
        paths_(graph.largest_cost()),
        scratch_(index(graph.nodes()), kUnreachable) {}

  const Graph& graph() const { return *graph_; }
  bool is_named() const { return used_named_ != nullptr; }

  // From now on these links are up (empty: all). Named routes are followed only while all are, as no switch follows an entry to a link that
  // is down; then the cheapest routes that are left are taken.
  void set_up(std::vector<bool> up) {
    up_ = std::move(up);
    used_named_ = std::find(up_.begin(), up_.end(), false) == up_.end() ? named_ : nullptr;
    known_.clear();
    held_ = 0;
  }

  // The row of a message from a node to a destination, which may be a switch. With kAnySource distances of all nodes are there, and hosts
  // forward unless they never do; else distances of nodes that are further away than the source may be missing.
  Row row(int source, int destination) {
    const bool may_pass = forwarding_ != HostForwarding::never;
    const bool by_source = source != kAnySource && forwarding_ == HostForwarding::if_needed && graph_->nodes() > graph_->hosts();
    Row row{destination, may_pass && !by_source, nullptr};
    row.distance = &distances(source, row);
    if (source == kAnySource || at(*row.distance, source) != kUnreachable) return row;
    if (!by_source) return {};
    row.through_hosts = true;
    row.distance = &distances(source, row);
    return at(*row.distance, source) != kUnreachable ? row : Row{};
  }

  // The links on which messages leave a node, in order, into `links`; none at the destination, and where it cannot be reached.
  void next_links(const Row& row, int node, std::vector<int>& links) const {
    links.clear();
    if (node == row.destination) return;
    if (used_named_) {
      links = at(*used_named_, node * graph_->hosts() + row.destination);
      return;
    }
    each_next_link(
        *graph_, *row.distance, node, [&](int next) { return enters(row, next); }, [this](int link) { return is_up(link); },
        [&](int link) { links.push_back(link); });
  }

  // The sets of all nodes, for messages from wherever.
  NextLinks next_links(int destination) {
    const Row to = row(kAnySource, destination);
    NextLinks all;
    std::vector<int> links;
    for (int node = 0; node < graph_->nodes(); ++node) {
      next_links(to, node, links);
      all.links.insert(all.links.end(), links.begin(), links.end());
      all.first.push_back(count_of(all.links));
    }
    return all;
  }

  // Goes from a node to the destination of its row, and calls `visit(link)` for each link of the path. Of several links `tie(node,
  // destination, links)` gives the place of the one that is taken.
  template <class Tie, class Visit>
  void walk(const Row& row, int from, Tie&& tie, Visit&& visit) const {
    std::vector<int> links;
    for (int node = from; node != row.destination;) {
      next_links(row, node, links);
      const int link = links[links.size() > 1 ? tie(node, row.destination, std::span<const int>(links)) : 0];
      visit(link);
      node = graph_->target(link);
    }
  }

  // Passes something on over all routes from a node, nodes that are furthest from the destination first. `pass(link, count, here, there)`
  // is called for each link: the number of links that leave the node, the state at the node, and the state at the link's target, which
  // begins as State{}. Returns the state at the destination in the end.
  template <class State, class Pass>
  State spread(const Row& row, int from, State at_from, Pass&& pass) const {
    std::vector<int> links;
    std::map<std::pair<int, int>, State> ahead{{{-at(*row.distance, from), from}, std::move(at_from)}};  // by distance and node
    while (ahead.begin()->first.first < 0) {
      const auto here = ahead.extract(ahead.begin());
      next_links(row, here.key().second, links);
      for (const int link : links) {
        const int next = graph_->target(link);
        pass(link, count_of(links), std::as_const(here.mapped()), ahead[{-at(*row.distance, next), next}]);
      }
    }
    return std::move(ahead.begin()->second);
  }

 private:
  // Distances are cached up to this many, and only of searches that had to visit this part of the nodes: near distances are found again as
  // fast as they are looked up.
  static constexpr std::size_t kMostDistances = std::size_t{1} << 23;
  static constexpr int kPartWorthKeeping = 8;

  bool enters(const Row& row, int node) const { return row.through_hosts || node == row.destination || !graph_->is_host(node); }
  bool is_up(int link) const { return up_.empty() || up_[index(link)]; }

  const std::vector<int>& distances(int source, const Row& row) {
    const std::int64_t key = std::int64_t{2} * row.destination + (row.through_hosts ? 1 : 0);
    const auto entry = known_.find(key);
    if (entry != known_.end()) return entry->second;
    if (!used_named_ && source != kAnySource) {
      for (const int node : reached_) at(scratch_, node) = kUnreachable;
      search(source, row, scratch_);
      if (count_of(reached_) < graph_->nodes() / kPartWorthKeeping) return scratch_;
    }
    if (held_ + index(graph_->nodes()) > kMostDistances) {
      known_.clear();
      held_ = 0;
    }
    held_ += index(graph_->nodes());
    std::vector<int> whole(index(graph_->nodes()), kUnreachable);
    used_named_ ? measure_named(row.destination, whole) : search(kAnySource, row, whole);
    return known_.emplace(key, std::move(whole)).first->second;
  }

  // From the destination back, until the distance of the source is known.
  void search(int source, const Row& row, std::vector<int>& distance) {
    std::vector<int>* const reached = &distance == &scratch_ ? &reached_ : nullptr;
    if (reached) reached->assign(1, row.destination);
    paths_.search(row.destination, distance, [&](int node, const auto& reach) {
      if (node == source) return false;
      if (!enters(row, node)) return true;
      for (const int number : graph_->entering(node)) {
        const Link& link = graph_->link(number);
        const bool is_new = at(distance, link.source) == kUnreachable;
        if (is_up(number) && reach(link.source, link.cost) && is_new && reached) reached->push_back(link.source);
      }
      return true;
    });
  }

  // The most links of named routes from each node.
  void measure_named(int destination, std::vector<int>& distance) const {
    at(distance, destination) = 0;
    const auto measure = [&](const auto& self, int node) -> int {
      int& known = at(distance, node);
      if (known != kUnreachable) return known;
      int furthest = kUnreachable;
      for (const int link : at(*used_named_, node * graph_->hosts() + destination)) {
        const int rest = self(self, graph_->target(link));
        if (rest != kUnreachable) furthest = std::max(furthest, rest + 1);
      }
      return known = furthest;
    };
    for (int node = 0; node < graph_->nodes(); ++node) measure(measure, node);
  }

  const Graph* graph_;
  HostForwarding forwarding_;
  const NamedLinks *named_, *used_named_;
  std::vector<bool> up_;
  ShortestPaths paths_;
  std::unordered_map<std::int64_t, std::vector<int>> known_;  // distances by destination, and whether hosts forward
  std::size_t held_ = 0;                                      // distances that are known
  std::vector<int> scratch_;                                  // of the last search that did not look at all nodes,
  std::vector<int> reached_;                                  // which has reached these
};

}  // namespace astra::fabric
