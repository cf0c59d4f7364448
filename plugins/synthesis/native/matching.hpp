// Broadcasts of all pieces of all ranks over the edges of a graph, as a greedy matching of edges and pieces in time.
#pragma once

#include <cstdint>
#include <vector>

namespace astra::synthesis {

// The edges between ranks: `links[first_link[e]]` to `links[first_link[e + 1] - 1]` are those of edge e. Times are in nanoseconds.
struct MatchingGraph {
  std::int32_t ranks;
  std::vector<std::int32_t> source, target, first_link, links;
  std::vector<double> latency;  // of each edge, the endpoint's with it
  std::vector<double> busy;     // of each link, for one piece
};

// A piece that is sent over an edge.
struct Sent {
  std::int32_t edge, piece;
  double start, arrival;
};

// The best of at most `attempts` matchings in which each rank sends its `pieces` pieces to all others, in the order of their starts. Ties
// are drawn, always the same ones. Stops early at a time that no matching can beat, which is `least` of the result; the time is infinite if
// pieces cannot get everywhere.
struct Matching {
  std::vector<Sent> sent;
  double time, least;
};

Matching best_matching(const MatchingGraph& graph, std::int32_t pieces, std::int32_t attempts);

}  // namespace astra::synthesis
