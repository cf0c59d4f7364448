// Ways of least cost within one group of a dimension.
#pragma once

#include <astra_sim/shortest_ways.hpp>
#include <astra_sim/turns.hpp>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fabric.hpp"
#include "rules.hpp"

namespace astra::flow {

// A link of a way, and which part of the message crosses it.
struct Crossing {
  int link = 0;
  double share = 1;
};

// A way from a position to another: latencies of links and switches (of several ways the longest), and the links.
struct Way {
  double latency_ns = 0;
  std::vector<Crossing> crossings;
};

class Paths {
 public:
  Paths(const Group& group, const Rules& rules);

  // The way of a message between two different positions, by the routing. `source` and `destination` are the NPUs at the ends of its whole
  // route, by which messages of different pairs take different ones of several ways. Returns whether there is a way.
  // `around`: equal parts through every other switch next to NPUs, where there are any; else as the routing says.
  bool find(int from, int to, int source, int destination, bool around, Way& way);

 private:
  using Distances = std::vector<int>;

  // Distances to a position, at least from `from` on inwards. Nodes that have none, or lie further away, have kNoWay.
  const Distances& distances(int from, int to, bool through_npus);
  // Where routes are named: of each node the most links that a message crosses to a position.
  void measure_named(int to, Distances& distance) const;
  // Whether messages to a node pass through NPUs, and their distances; none where there is no way from `from`.
  const Distances* reach(int from, int to, bool& through_npus);
  bool detour(int from, int to, Way& way);
  void search(int from, int to, bool through_npus, Distances& distance);
  void walk(int from, int to, const Distances& distance, bool through_npus, int source, int destination, Way& way) const;
  void spread(int from, int to, const Distances& distance, bool through_npus, Way& way) const;
  // The links that lead from a node to nodes that are nearer to a position, and that may pass the message on.
  void nearer(int node, int to, const Distances& distance, bool through_npus, std::vector<int>& links) const;
  // Which of several links, in the order of their targets, a message to a position takes by its turn.
  std::size_t in_turn(int node, int to, std::vector<int>& links) const;
  // Which of several links leads to the next target upwards: on a ring both directions may be as short.
  std::size_t upwards(int node, std::vector<int>& links) const;
  // The latency of a link, and of the switch that it leads to.
  double latency_over(int link) const;

  static constexpr int kNoWay = ShortestWays::kNoWay;

  const Group& group_;
  Routing routing_;
  Forwarding npus_forward_;
  std::uint64_t seed_;
  std::optional<astra::Turns> turns_;
  std::vector<std::vector<int>> leaving_, entering_;  // links of each node
  std::unordered_map<std::int64_t, Distances> known_;
  std::vector<int> middles_;              // switches next to NPUs, or NPUs where there are none
  std::vector<std::vector<int>> beside_;  // of each position, those of them that it is or is next to
  std::size_t held_ = 0;                  // distances that are known
  ShortestWays ways_;
  Distances scratch_;
  std::vector<int> reached_;  // the nodes that the last search has reached
};

}  // namespace astra::flow
