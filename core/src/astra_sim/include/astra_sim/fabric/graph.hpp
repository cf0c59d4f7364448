// The fabric room in C++: graph, shortest paths, routes, rules that break ties. `astra_sim.fabric` is the same in Python (C++20).
//
// How a network takes its routes from here:
//
//   #include <astra_sim/fabric/routes.hpp>               // which includes this header and paths.hpp
//   #include <astra_sim/fabric/ties.hpp>                 // only where a message has one path
//
//   fabric::Graph graph(nodes, npus, links, fabric::LinkOrder::target);  // `links`: of anything with source, target and cost
//   fabric::Routes routes(graph, fabric::HostForwarding::never);
//   const fabric::Row row = routes.row(source, destination);             // distances; false where there is no route
//   routes.next_links(row, node, links);                                 // the ordered set of links that lead on
//   const fabric::NextLinks table = routes.next_links(destination);      // the sets of all nodes at once, to keep
//   routes.walk(row, source, tie, [&](int link) { ... });                // one path, by a rule of ties.hpp
//   routes.spread(row, source, ...);                                     // all of them, in parts
//   routes.set_up(up);                                                   // links have failed, or come back
//
// Rows are made when they are asked for, and nothing is of nodes times destinations: the cost is that of the destinations in use. A network
// whose destinations are several nodes at once (the routers of all groups at one position), or that notes more at each step of a search (a
// round trip), uses `ShortestPaths` and `each_next_link` of paths.hpp themselves: `Routes` is made of them.
//
// These headers are compiled into a plugin and belong to one version of the kernel. They are no stable interface as `network.h` is: a
// package that includes them requires the version of `astra-sim-core` against which it was built.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "../index.hpp"

namespace astra::fabric {

// A link, one way. Routes have the least sum of costs, each a whole number from 1 to 255.
struct Link {
  int source = 0;
  int target = 0;
  int cost = 1;
};

// The largest cost of some links; 1 where there are none.
template <class Links>
int largest_cost(const Links& links) {
  int largest = 1;
  for (const auto& link : links) largest = std::max(largest, static_cast<int>(link.cost));
  return largest;
}

// In which order a node lists its links: as they are numbered; or by the numbers of the nodes that they lead to, and those to one node as
// they are numbered.
enum class LinkOrder : std::uint8_t { listed, target };

// Hosts (NPUs) 0 to `hosts` - 1, switches from there on, and links, by their numbers: compressed sparse rows, which never change in a run.
class Graph {
 public:
  template <class Links>
  Graph(int nodes, int hosts, const Links& links, LinkOrder order = LinkOrder::listed)
      : nodes_(nodes), hosts_(hosts), largest_cost_(fabric::largest_cost(links)) {
    links_.reserve(links.size());
    for (const auto& link : links)
      links_.push_back({static_cast<int>(link.source), static_cast<int>(link.target), static_cast<int>(link.cost)});
    leaving_ = Rows(*this, &Link::source);
    entering_ = Rows(*this, &Link::target);
    if (order == LinkOrder::target) order_leaving([this](int a, int b) { return target(a) < target(b); });
  }

  int nodes() const { return nodes_; }
  int hosts() const { return hosts_; }
  int links() const { return count_of(links_); }
  bool is_host(int node) const { return node < hosts_; }
  const Link& link(int number) const { return at(links_, number); }
  int target(int link) const { return at(links_, link).target; }
  int largest_cost() const { return largest_cost_; }

  // The links of a node, in order.
  std::span<const int> leaving(int node) const { return leaving_[node]; }
  std::span<const int> entering(int node) const { return entering_[node]; }

  // Another order, by a comparison of two links of a node; equal links keep their order. Of
  // links that leave it decides the order of next links; of links that enter, which of several equal paths a search meets first.
  template <class Before>
  void order_leaving(Before before) {
    leaving_.sort(before);
  }
  template <class Before>
  void order_entering(Before before) {
    entering_.sort(before);
  }

 private:
  // The links at each node: those of one after those of another.
  class Rows {
   public:
    Rows() = default;
    Rows(const Graph& graph, int Link::* end) : first_(index(graph.nodes_) + 1, 0), links_(graph.links_.size()) {
      for (const Link& link : graph.links_) ++at(first_, link.*end + 1);
      for (int node = 0; node < graph.nodes_; ++node) at(first_, node + 1) += at(first_, node);
      std::vector<int> next(first_.begin(), first_.end() - 1);
      for (int link = 0; link < count_of(links_); ++link) at(links_, at(next, graph.link(link).*end)++) = link;
    }

    std::span<const int> operator[](int node) const { return {links_.data() + at(first_, node), links_.data() + at(first_, node + 1)}; }

    template <class Before>
    void sort(Before before) {
      for (std::size_t node = 0; node + 1 < first_.size(); ++node)
        std::stable_sort(links_.begin() + first_[node], links_.begin() + first_[node + 1], before);
    }

   private:
    std::vector<int> first_, links_;
  };

  int nodes_ = 0;
  int hosts_ = 0;
  int largest_cost_ = 1;
  std::vector<Link> links_;
  Rows leaving_, entering_;
};

}  // namespace astra::fabric
