// SPDX-License-Identifier: GPL-2.0-only
#include "routing.hpp"

#include <array>
#include <span>

#include "ns3/ipv4-header.h"
#include "ns3/ipv4.h"
#include "ns3/net-device.h"
#include "ns3/packet.h"

namespace astra::tcp {

namespace {

constexpr std::uint32_t kFirstAddress = (10U << 24) + 1;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// The ports, which are the first four bytes of a segment; 0 before there is one.
std::uint64_t ports_of(const ns3::Packet* packet) {
  std::array<std::uint8_t, 4> bytes{};
  if (packet) packet->CopyData(bytes.data(), bytes.size());
  return std::uint64_t{bytes[0]} << 24 | std::uint64_t{bytes[1]} << 16 | std::uint64_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

ns3::Ipv4Address address_of(std::uint32_t node) { return ns3::Ipv4Address(kFirstAddress + node); }
std::uint32_t node_of(ns3::Ipv4Address address) { return address.Get() - kFirstAddress; }

ns3::TypeId FabricRouting::GetTypeId() {
  static const ns3::TypeId id = ns3::TypeId("astra::FabricRouting").SetParent<ns3::Ipv4RoutingProtocol>();
  return id;
}

ns3::Ptr<ns3::Ipv4Route> FabricRouting::RouteOutput(ns3::Ptr<ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<ns3::NetDevice>,
                                                    ns3::Socket::SocketErrno& error) {
  const ns3::Ptr<ns3::Ipv4Route> result = route(packet, header);
  error = result ? ns3::Socket::ERROR_NOTERROR : ns3::Socket::ERROR_NOROUTETOHOST;
  return result;
}

bool FabricRouting::RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<const ns3::NetDevice> device,
                               const UnicastForwardCallback& forward, const MulticastForwardCallback&, const LocalDeliverCallback& deliver,
                               const ErrorCallback&) {
  if (node_of(header.GetDestination()) == node_) {
    deliver(packet, header, static_cast<std::uint32_t>(ipv4_->GetInterfaceForDevice(device)));
    return true;
  }
  const ns3::Ptr<ns3::Ipv4Route> result = route(packet, header);
  if (!result) return false;
  forward(result, packet, header);
  return true;
}

ns3::Ptr<ns3::Ipv4Route> FabricRouting::route(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header) {
  const std::span<const int> links = shared_->routes.next_links(node_, node_of(header.GetDestination()));
  if (links.empty()) return nullptr;
  if (links.size() == 1) return at(shared_->over, links.front());
  const std::uint64_t ends = std::uint64_t{header.GetSource().Get()} << 32 | header.GetDestination().Get();
  const std::uint64_t hash = mix(mix(mix(shared_->seed ^ ends) ^ ports_of(ns3::PeekPointer(packet))) ^ node_);
  return at(shared_->over, links[hash % links.size()]);
}

}  // namespace astra::tcp
