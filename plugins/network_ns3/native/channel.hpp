// SPDX-License-Identifier: GPL-2.0-only
// A pair of links between two nodes: ns-3's point-to-point channel with a delay for each way, which counts its traffic.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "ns3/nstime.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/queue-disc.h"

namespace astra::tcp {

// The load of a link, its busy time (ps), and the bytes that waited for it when a packet left, with that packet: the most, and
// the sum over all packets.
struct Load {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::int64_t busy = 0;
  std::uint64_t highest_queue = 0;
  std::uint64_t sum_of_queues = 0;
};

class FabricChannel : public ns3::PointToPointChannel {
 public:
  static ns3::TypeId GetTypeId();

  // One way begins at the device that is attached first. `look` is called now and then while packets move.
  FabricChannel(std::array<ns3::Time, 2> delays, std::array<Load*, 2> loads, std::function<void()> look);

  // The queue of traffic control at the device where a way begins.
  void add_queue(std::size_t way, ns3::Ptr<ns3::QueueDisc> queue) { queues_[way] = queue; }

  bool TransmitStart(ns3::Ptr<const ns3::Packet> packet, ns3::Ptr<ns3::PointToPointNetDevice> source, ns3::Time duration) override;

 private:
  std::array<ns3::Time, 2> delays_;
  std::array<Load*, 2> loads_;
  std::array<ns3::Ptr<ns3::QueueDisc>, 2> queues_;
  std::function<void()> look_;
};

}  // namespace astra::tcp
