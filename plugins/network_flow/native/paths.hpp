// The paths of a message within one group of a dimension: those of the fabric, with their latency, and ways around.
#pragma once

#include <astra_sim/fabric/routes.hpp>
#include <astra_sim/fabric/ties.hpp>
#include <cstdint>
#include <vector>

#include "fabric.hpp"
#include "rules.hpp"

namespace astra::flow {

// A link of a path, and which part of the message crosses it.
struct Crossing {
  int link = 0;
  double share = 1;
};

// A path from a position to another, or several: latencies of links and switches (of several paths the longest), and the links.
struct GroupPath {
  double latency_ns = 0;
  std::vector<Crossing> crossings;
};

class Paths {
 public:
  Paths(const Group& group, const Rules& rules);
  Paths(const Paths&) = delete;  // its parts refer to each other

  // The path of a message between two different positions, by the routing. `source` and `destination` are the NPUs at the ends of its whole
  // route, by which messages of different pairs take different ones of several paths. Returns whether there is one.
  // `around`: equal parts through every other switch next to NPUs, if there are any; else by the routing.
  bool find(int from, int to, int source, int destination, bool around, GroupPath& path);

 private:
  void list_middles();
  bool is_beside(int position, int node) const;
  bool detour(int from, int to, GroupPath& path);
  void walk(const fabric::Row& row, int from, int source, int destination, GroupPath& path) const;
  void spread(const fabric::Row& row, int from, GroupPath& path) const;
  // The latency of a link, and of the switch that it leads to.
  double latency_over(int link) const;

  const Group& group_;
  Routing routing_;
  std::uint64_t seed_;
  fabric::Graph graph_;
  fabric::Routes routes_;
  fabric::TieByDestination by_destination_;
  std::vector<int> middles_;              // switches next to NPUs, or NPUs where there are none
  std::vector<std::vector<int>> beside_;  // of each position, those of them that it is or is next to
};

}  // namespace astra::flow
