// SPDX-License-Identifier: GPL-2.0-only
// The nodes, devices and channels of ns-3 for a graph. They live until ns-3's simulator is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "channel.hpp"
#include "ns3/node.h"
#include "ns3/point-to-point-net-device.h"
#include "routing.hpp"
#include "settings.hpp"

namespace astra::tcp {

class Topology {
 public:
  Topology(const Settings& settings, const Plan& plan, std::function<void()> look);

  const ns3::Ptr<ns3::Node>& node(std::uint32_t number) const { return nodes_[number]; }
  const std::vector<Load>& loads() const { return loads_; }

  // Packets that found a queue full, and packets that were marked.
  std::uint64_t drops() const;
  std::uint64_t marks() const;

 private:
  void add_nodes();
  void add_device(std::uint32_t link);
  void join(std::uint32_t link, std::uint32_t reverse);
  void add_marking(std::uint32_t link);
  void add_losses(std::uint32_t link);
  std::uint32_t queue_packets(std::uint32_t node) const;

  const Settings& settings_;
  const Plan& plan_;
  std::function<void()> look_;
  SharedRoutes shared_;
  std::vector<ns3::Ptr<ns3::Node>> nodes_;
  std::vector<ns3::Ptr<ns3::PointToPointNetDevice>> devices_;  // of each link, at the node that it leaves
  std::vector<ns3::Ptr<ns3::QueueDisc>> disciplines_;          // of each link, if packets are marked
  std::vector<Load> loads_;                                    // of each link
};

}  // namespace astra::tcp
