// The graph of a platform: NPUs, switches and links, dimension by dimension. Never changes during a run.
//
// Every group of NPUs that differ in one dimension alone has links and switches of its own, which are alike in all groups of a dimension:
// one is described, links and nodes of the others are numbered after it. The numbers are those of `Fabric` in `astra_sim.fabric`.
#pragma once

#include <astra_sim/index.hpp>
#include <cstdint>
#include <vector>

namespace astra::flow {

// A link of a group, one way, between positions of its dimension and, from the size of the dimension on, switches.
struct GroupLink {
  int source = 0;
  int target = 0;
  double bandwidth = 0;  // bytes per nanosecond
  double latency_ns = 0;
  int cost = 1;
};

struct Group {
  int size = 1;   // NPUs
  int nodes = 1;  // NPUs and switches
  double nic_latency_ns = 0;
  std::vector<double> switch_latency_ns;  // of each switch
  std::vector<GroupLink> links;
  std::vector<int>
      destination_order;  // of each position, by which destinations spread over paths of equal cost; empty where they take none
  std::vector<std::vector<int>> next_links;  // by node and position: where the topology names routes, the links on which messages leave

  bool is_switch(int node) const { return node >= size; }
};

class Fabric {
 public:
  // Raises std::invalid_argument where a group cannot be.
  explicit Fabric(std::vector<Group> groups);

  int npus() const { return npus_; }
  int links() const { return first_link_.back(); }
  int dimensions() const { return count_of(groups_); }
  const Group& group(int dimension) const { return at(groups_, dimension); }

  // The position of an NPU in a dimension.
  int position(int npu, int dimension) const { return npu / at(stride_, dimension) % group(dimension).size; }

  // The NPU at another position of the dimension.
  int moved(int npu, int dimension, int to) const { return npu + (to - position(npu, dimension)) * at(stride_, dimension); }

  // The number of the first link of the group of an NPU.
  int first_link(int npu, int dimension) const;

  // Bytes per nanosecond of a link.
  double bandwidth(int link) const;

 private:
  std::vector<Group> groups_;
  std::vector<int> stride_;
  std::vector<int> first_link_;  // of each dimension, and behind the last
  int npus_ = 1;
};

}  // namespace astra::flow
