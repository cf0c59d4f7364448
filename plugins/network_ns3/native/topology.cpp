// SPDX-License-Identifier: GPL-2.0-only
#include "topology.hpp"

#include <array>
#include <utility>

#include "ns3/arp-l3-protocol.h"
#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/enum.h"
#include "ns3/error-model.h"
#include "ns3/icmpv4-l4-protocol.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/queue-size.h"
#include "ns3/red-queue-disc.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"

namespace astra::tcp {

namespace {

constexpr std::uint32_t kMostHeaderBytes = 20 + 60;  // IP without options, TCP with as many as there can be
constexpr std::uint8_t kTimeToLive = 255;

ns3::QueueSizeValue packets(std::uint32_t count) { return ns3::QueueSizeValue(ns3::QueueSize(ns3::QueueSizeUnit::PACKETS, count)); }

}  // namespace

Topology::Topology(const Settings& settings, const Plan& plan, std::function<void()> look)
    : settings_(settings),
      plan_(plan),
      look_(std::move(look)),
      shared_{Routes(plan), settings.seed, {}},
      disciplines_(plan.links.size()),
      loads_(plan.links.size()) {
  add_nodes();
  for (std::uint32_t link = 0; link < plan_.links.size(); ++link) add_device(link);
  for (std::uint32_t link = 0; link < plan_.links.size(); ++link) {
    if (link < plan_.links[link].reverse) join(link, plan_.links[link].reverse);
  }
  // Before any socket connects: a node initialises itself at time 0 otherwise, and loses earlier packets.
  for (const auto& node : nodes_) node->Initialize();
}

std::uint64_t Topology::drops() const {
  std::uint64_t count = 0;
  for (const auto& device : devices_) count += device->GetQueue()->GetTotalDroppedPackets();
  for (const auto& discipline : disciplines_) count += discipline ? discipline->GetStats().nTotalDroppedPackets : 0;
  return count;
}

std::uint64_t Topology::marks() const {
  std::uint64_t count = 0;
  for (const auto& discipline : disciplines_) count += discipline ? discipline->GetStats().nTotalMarkedPackets : 0;
  return count;
}

void Topology::add_nodes() {
  for (std::uint32_t number = 0; number < plan_.nodes; ++number) {
    const auto node = ns3::CreateObject<ns3::Node>();
    node->AggregateObject(ns3::CreateObject<ns3::TrafficControlLayer>());
    const auto ip = ns3::CreateObject<ns3::Ipv4L3Protocol>();
    ip->SetDefaultTtl(kTimeToLive);
    node->AggregateObject(ip);
    node->AggregateObject(ns3::CreateObject<ns3::Icmpv4L4Protocol>());
    if (number < plan_.npus) node->AggregateObject(ns3::CreateObject<ns3::TcpL4Protocol>());
    ip->SetRoutingProtocol(ns3::Create<FabricRouting>(number, shared_));
    nodes_.push_back(node);
  }
}

void Topology::add_device(std::uint32_t link) {
  const Link& of = plan_.links[link];
  const auto device = ns3::CreateObject<ns3::PointToPointNetDevice>();
  device->SetAddress(ns3::Mac48Address::Allocate());
  device->SetDataRate(ns3::DataRate(of.bits_per_s));
  device->SetMtu(static_cast<std::uint16_t>(settings_.segment_bytes + kMostHeaderBytes));
  nodes_[of.source]->AddDevice(device);
  const auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
  queue->SetAttribute("MaxSize", packets(settings_.marks() ? 1 : queue_packets(of.source)));
  device->SetQueue(queue);
  if (settings_.marks()) {
    const auto control = ns3::CreateObject<ns3::NetDeviceQueueInterface>();
    control->GetTxQueue(0)->ConnectQueueTraces(queue);
    device->AggregateObject(control);
  }
  devices_.push_back(device);
  const auto route = ns3::Create<ns3::Ipv4Route>();
  route->SetSource(address_of(of.source));
  route->SetGateway(address_of(of.target));
  route->SetOutputDevice(device);
  shared_.over.push_back(route);
}

void Topology::join(std::uint32_t link, std::uint32_t reverse) {
  const auto delay = [&](std::uint32_t number) { return ns3::PicoSeconds(plan_.links[number].delay); };
  const auto channel =
      ns3::CreateObject<FabricChannel>(std::array{delay(link), delay(reverse)}, std::array{&loads_[link], &loads_[reverse]}, look_);
  for (const std::uint32_t each : {link, reverse}) devices_[each]->Attach(channel);
  for (const std::uint32_t each : {link, reverse}) {
    if (settings_.marks()) {
      add_marking(each);
      channel->add_queue(each == link ? 0 : 1, disciplines_[each]);
    }
    if (plan_.links[each].error > 0) add_losses(each);
    const std::uint32_t source = plan_.links[each].source;
    const auto ip = nodes_[source]->GetObject<ns3::Ipv4L3Protocol>();
    const std::uint32_t interface = ip->AddInterface(devices_[each]);
    // A mask of all bits would make the address a broadcast address.
    ip->AddAddress(interface, ns3::Ipv4InterfaceAddress(address_of(source), ns3::Ipv4Mask("255.0.0.0")));
    ip->SetUp(interface);
  }
}

// The queue marks packets by its length of the moment and one threshold, as DCTCP wants it.
void Topology::add_marking(std::uint32_t link) {
  const std::uint32_t source = plan_.links[link].source;
  const auto discipline = ns3::CreateObject<ns3::RedQueueDisc>();
  discipline->SetAttribute("MaxSize", packets(queue_packets(source)));
  discipline->SetAttribute("MinTh", ns3::DoubleValue(settings_.mark_packets));
  discipline->SetAttribute("MaxTh", ns3::DoubleValue(settings_.mark_packets));
  discipline->SetAttribute("QW", ns3::DoubleValue(1));
  discipline->SetAttribute("Gentle", ns3::BooleanValue(false));
  discipline->SetAttribute("UseEcn", ns3::BooleanValue(true));
  discipline->SetAttribute("UseHardDrop", ns3::BooleanValue(false));
  discipline->SetAttribute("MeanPktSize", ns3::UintegerValue(settings_.segment_bytes));
  discipline->SetNetDeviceQueueInterface(devices_[link]->GetObject<ns3::NetDeviceQueueInterface>());
  nodes_[source]->GetObject<ns3::TrafficControlLayer>()->SetRootQueueDiscOnDevice(devices_[link], discipline);
  disciplines_[link] = discipline;
}

void Topology::add_losses(std::uint32_t link) {
  const auto losses = ns3::CreateObject<ns3::RateErrorModel>();
  losses->SetUnit(ns3::RateErrorModel::ERROR_UNIT_PACKET);
  losses->SetRate(plan_.links[link].error);
  devices_[plan_.links[link].reverse]->SetReceiveErrorModel(losses);
}

std::uint32_t Topology::queue_packets(std::uint32_t node) const {
  constexpr std::uint32_t kUnlimited = std::numeric_limits<std::int32_t>::max();
  if (node >= plan_.npus) return settings_.queue_packets;
  return settings_.nic_queue_packets == 0 ? kUnlimited : settings_.nic_queue_packets;
}

}  // namespace astra::tcp
