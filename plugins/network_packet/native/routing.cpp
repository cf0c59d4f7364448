// Which way a packet goes, and which virtual channels it may take there.

#include "domain.hpp"

namespace astra::packet {

namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64* (Marsaglia, Vigna)
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}

}  // namespace

// Where the packet at the front of a virtual channel goes on.
void Domain::set_route(int r, int in, ReceiverVc& vc, Packet& packet) {
  vc.out = route(r, in, packet);
  vc.out_port = static_cast<std::int16_t>(link(vc.out).source_port);
  const auto [first, end] = shape_->vcs_of(vc.out, packet.vnet, packet.vc_class);
  vc.first_vc = static_cast<std::int16_t>(first);
  vc.end_vc = static_cast<std::int16_t>(end);
  vc.out_vc = -1;
}

// The output channel of a packet whose head came in through channel `in`, or a node's own interface.
int Domain::route(int r, int in, Packet& packet) {
  const Shape& shape = *shape_;
  const RouterSpec& router = shape.router[static_cast<std::size_t>(r)];
  int out = shape.first_hop(r, in, packet.destination, packet.vnet);
  if (link(out).dimension < 0) return out;
  if (!router.spray.empty()) {
    out = router.spray[routers_[static_cast<std::size_t>(r)].sprayed++ % router.spray.size()];
  } else if (shape.rules.choice == RouteChoice::first || !shape.several_ways(r, packet.destination)) {
    // There is nothing to choose.
  } else if (shape.rules.choice == RouteChoice::random) {
    const std::vector<int> all = shape.next_hops(r, packet.destination);
    out = all[(next_random(routers_[static_cast<std::size_t>(r)].random) >> 33) % all.size()];
  } else {
    std::int64_t most = -1;
    for (int candidate : shape.next_hops(r, packet.destination)) {
      take_credits(candidate, now_);
      std::int64_t credits = 0;
      for (int vc = 0; vc < shape.vc_count(candidate); ++vc) {
        credits += credits_[vc_index(candidate, vc)] + (has_bit(idle(candidate), vc) ? shape.rules.buffers : 0);
      }
      if (credits > most) {
        most = credits;
        out = candidate;
      }
    }
  }
  ++packet.hops;
  packet.vc_class = static_cast<std::uint8_t>(shape.next_class(in, out, packet.destination, packet.vc_class));
  return out;
}

}  // namespace astra::packet
