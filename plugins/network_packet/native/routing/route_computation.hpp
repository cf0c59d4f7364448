// Route computation: which output a packet takes at a router, of those that the routing tables allow, and which virtual channels there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "links/credit_channels.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "routers/input_buffers.hpp"

namespace astra::packet {

class RouteComputation {
 public:
  RouteComputation(const Shape& shape, CreditChannels& credits);

  // The next hop of the packet at the front of a virtual channel of router `r`, from the state in cycle `now`. It came in through channel
  // `in`.
  [[gnu::always_inline]] void set_route(int r, int in, InputVc& vc, Packet& packet, Cycle now);

  void snapshot(Snapshot& snapshot) const;
  // By router, packets that it has sprayed over its outputs; and the same has happened `count` times more since they were `before`.
  const std::vector<std::uint32_t>& sprayed() const { return sprayed_; }
  void repeat(const std::vector<std::uint32_t>& before, std::int64_t count);

 private:
  // The output channel that it takes, if router `r` chooses among several, or if there is one: `only`.
  int choose(int r, int only, int destination, bool several, Cycle now);
  // Of all shortest paths the one with most free places.
  int most_free(int r, int destination, Cycle now);

  Neighbour<const Shape> shape_;
  Neighbour<CreditChannels> credits_;
  std::span<const Link> links_;
  std::vector<std::uint64_t> random_;   // by router: state of its random numbers
  std::vector<std::uint32_t> sprayed_;  // by router: packets
  bool sprays_ = false;                 // some router does
  bool first_ = true;                   // of several shortest paths, always the same is taken
};

inline void RouteComputation::set_route(int r, int in, InputVc& vc, Packet& packet, Cycle now) {
  const Shape& shape = *shape_;
  const int address = packet.destination;
  const std::uint16_t entry = shape.routes.hop(r, address);
  const bool several = (entry & TableEntry::kSeveral) != 0;
  int out = shape.next_channel(entry, r, in, address, packet.vnet);
  if (at(links_, out).dimension >= 0) {  // else the node's own interface
    if (sprays_ || (several && !first_)) out = choose(r, out, address, several, now);
    ++packet.hops;
    packet.vc_class = narrow<std::uint8_t>(shape.next_class(in, out, address, packet.vc_class));
    packet.destination = shape.next_address(out, address);
  }
  const Link& way = at(links_, out);
  const auto [first, end] = shape.vcs_of(out, packet.vnet, packet.vc_class);
  vc.out = vc.way = out;
  if (way.offset_map == OffsetMap::straight) vc.way += shape.channels() * shape.routes.addresses().position(address, way.dimension);
  vc.out_port = narrow<std::int16_t>(way.source_port);
  vc.first_vc = narrow<std::int16_t>(first);
  vc.end_vc = narrow<std::int16_t>(end);
  vc.out_vc = -1;
}

}  // namespace astra::packet
