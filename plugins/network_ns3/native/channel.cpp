// SPDX-License-Identifier: GPL-2.0-only
#include "channel.hpp"

#include <algorithm>
#include <utility>

#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/queue.h"
#include "ns3/simulator.h"

namespace astra::tcp {

ns3::TypeId FabricChannel::GetTypeId() {
  static const ns3::TypeId id = ns3::TypeId("astra::FabricChannel").SetParent<ns3::PointToPointChannel>();
  return id;
}

FabricChannel::FabricChannel(std::array<ns3::Time, 2> delays, std::array<Load*, 2> loads, std::function<void()> look)
    : delays_(delays), loads_(loads), look_(std::move(look)) {}

bool FabricChannel::TransmitStart(ns3::Ptr<const ns3::Packet> packet, ns3::Ptr<ns3::PointToPointNetDevice> source, ns3::Time duration) {
  const std::size_t way = source == GetSource(0) ? 0 : 1;
  Load& load = *loads_[way];
  ++load.packets;
  load.bytes += packet->GetSize();
  load.busy += duration.GetPicoSeconds();
  const std::uint64_t behind = source->GetQueue()->GetNBytes() + (queues_[way] ? queues_[way]->GetNBytes() : 0);
  load.highest_queue = std::max(load.highest_queue, behind + packet->GetSize());
  load.sum_of_queues += behind + packet->GetSize();
  const ns3::Ptr<ns3::PointToPointNetDevice> target = GetDestination(way);
  ns3::Simulator::ScheduleWithContext(target->GetNode()->GetId(), duration + delays_[way], &ns3::PointToPointNetDevice::Receive, target,
                                      packet->Copy());
  look_();
  return true;
}

}  // namespace astra::tcp
