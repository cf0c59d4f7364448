// PathChoices of least cost over switches: for each node and NPU the ports with which they begin, and the time of a round trip.
//
// NPUs do not forward. Nodes and destinations with the same ports share one set of them, and pairs with the same round trip its figures, so
// memory goes with nodes times NPUs, some bytes each.
#pragma once

#include <astra_sim/fabric/destination_order.hpp>
#include <astra_sim/fabric/paths.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "large_array.hpp"
#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

class Routes {
 public:
  Routes(const Settings& settings, const Plan& plan);

  // Find all ways again, over links that are up.
  void find(const std::vector<bool>& up);

  // The ports of a node on shortest paths to an NPU; none where there is no way.
  std::span<const LinkId> next_hops(NodeId node, NodeId npu) const {
    const std::uint32_t set = set_of_[static_cast<std::size_t>(node) * plan_.npus + npu];
    return {ports_.data() + first_[set], ports_.data() + first_[set + 1]};
  }
  // The same of ways to the switch of a place in `Plan::middles`.
  std::span<const LinkId> next_hops_to_middle(NodeId node, std::uint32_t middle) const {
    const std::uint32_t set = set_of_middle_[static_cast<std::size_t>(node) * plan_.middles.size() + middle];
    return {ports_.data() + first_[set], ports_.data() + first_[set + 1]};
  }
  bool connected(NodeId source, NodeId target) const { return round_trip_ns(source, target) != 0; }

  // Nanoseconds of a packet of payload alone and back over the first of the shortest paths: twice the delays, and the transmissions; 0: no
  // way.
  std::int64_t round_trip_ns(NodeId source, NodeId target) const { return trip(source, target).ns; }
  // Bytes that the narrowest link of that way carries in that time.
  std::int64_t product_bytes(NodeId source, NodeId target) const { return trip(source, target).product; }
  std::int64_t longest_round_trip_ns() const { return longest_round_trip_; }
  std::int64_t largest_product_bytes() const { return largest_product_; }

 private:
  struct Trip {
    std::int64_t ns = 0;
    std::int64_t product = 0;
  };

  std::size_t pair(NodeId source, NodeId target) const { return static_cast<std::size_t>(source) * plan_.npus + target; }
  const Trip& trip(NodeId source, NodeId target) const { return trips_[trip_of_[pair(source, target)]]; }
  void note_trip(NodeId source, NodeId target, Trip trip);
  // The ways to an NPU, and the figures of round trips to it.
  void find_to(NodeId npu, const std::vector<bool>& up);
  void find_to_middle(std::uint32_t middle, const std::vector<bool>& up);
  // The ports of a node on shortest paths to a node, if distances are those of a search.
  void find_nearer(NodeId node, NodeId target, const std::vector<int>& distance, const std::vector<bool>& up,
                   std::vector<LinkId>& nearer) const;
  std::uint32_t number_of(const std::vector<LinkId>& ports);
  // Round trips over routes that are named.
  void note_named_trips(NodeId npu);
  void order_ports();
  // Of several paths of equal cost of a node to an NPU leave the one that belongs to this destination.
  void leave_one(NodeId node, NodeId npu, std::vector<LinkId>& ports) const;

  const Settings& settings_;
  const Plan& plan_;
  fabric::ShortestPaths search_;
  std::vector<std::optional<fabric::DestinationOrder>> destination_order_;  // of each dimension with one way for each destination
  std::vector<std::vector<LinkId>> leaving_;                                // of each node, in the order of ways
  LargeArray<std::uint32_t> set_of_;                                        // of node and NPU
  std::vector<std::uint32_t> set_of_middle_;                                // of node and middle
  std::vector<LinkId> ports_;                                               // of the sets, one after another
  std::vector<std::uint32_t> first_;
  std::map<std::vector<LinkId>, std::uint32_t> sets_;
  std::vector<Trip> trips_;  // that differ; the first is that of NPUs without a way
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> trip_numbers_;
  std::vector<std::uint32_t> trip_of_;  // of source and target
  std::int64_t longest_round_trip_ = 0;
  std::int64_t largest_product_ = 0;
};

}  // namespace astra::roce
