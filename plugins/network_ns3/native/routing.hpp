// SPDX-License-Identifier: GPL-2.0-only
// How IP in ns-3 routes on the graph: over paths of least cost, of which a hash of addresses and ports takes one (ECMP).
#pragma once

#include <cstdint>
#include <vector>

#include "ns3/ipv4-address.h"
#include "ns3/ipv4-route.h"
#include "ns3/ipv4-routing-protocol.h"
#include "routes.hpp"

namespace astra::tcp {

// Addresses of nodes, one each, on all of their interfaces: 10.0.0.1 and so on.
ns3::Ipv4Address address_of(std::uint32_t node);
std::uint32_t node_of(ns3::Ipv4Address address);

// The shared data of a network's nodes: routes, and for each link the route over it in ns-3's form.
struct SharedRoutes {
  Routes routes;
  std::uint64_t seed = 0;
  std::vector<ns3::Ptr<ns3::Ipv4Route>> over;
};

class FabricRouting : public ns3::Ipv4RoutingProtocol {
 public:
  static ns3::TypeId GetTypeId();
  FabricRouting(std::uint32_t node, SharedRoutes& shared) : node_(node), shared_(&shared) {}

  ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<ns3::NetDevice> device,
                                       ns3::Socket::SocketErrno& error) override;
  bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<const ns3::NetDevice> device,
                  const UnicastForwardCallback& forward, const MulticastForwardCallback& multicast, const LocalDeliverCallback& deliver,
                  const ErrorCallback& fail) override;
  void NotifyInterfaceUp(std::uint32_t) override {}
  void NotifyInterfaceDown(std::uint32_t) override {}
  void NotifyAddAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override {}
  void NotifyRemoveAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override {}
  void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { ipv4_ = ns3::PeekPointer(ipv4); }
  void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

 private:
  ns3::Ptr<ns3::Ipv4Route> route(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header);

  std::uint32_t node_;
  SharedRoutes* shared_;
  ns3::Ipv4* ipv4_ = nullptr;  // which owns this
};

}  // namespace astra::tcp
