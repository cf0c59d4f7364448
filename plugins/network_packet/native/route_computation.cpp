#include "route_computation.hpp"

namespace astra::packet {

namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64* (Marsaglia, Vigna)
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}

}  // namespace

RouteComputation::RouteComputation(const Shape& shape, Channels& channels)
    : shape_(shape), channels_(channels), links_(shape.link), sprayed_(shape.router.size()) {
  for (std::uint64_t r = 1; r <= shape.router.size(); ++r) random_.push_back((shape.rules.seed + r) * 0x9E3779B97F4A7C15ULL);
}

void RouteComputation::set_route(int r, int in, InputVc& vc, Packet& packet, Cycle now) {
  const int address = packet.destination;
  vc.out = route(r, in, packet, now);
  vc.way = vc.out;
  const Link& way = at(links_, vc.out);
  if (way.fold == Fold::straight) vc.way += shape_->channels() * shape_->routes.position(address, way.dimension);
  vc.out_port = narrow<std::int16_t>(way.source_port);
  const auto [first, end] = shape_->vcs_of(vc.out, packet.vnet, packet.vc_class);
  vc.first_vc = narrow<std::int16_t>(first);
  vc.end_vc = narrow<std::int16_t>(end);
  vc.out_vc = -1;
}

int RouteComputation::route(int r, int in, Packet& packet, Cycle now) {
  const RouterSpec& router = at(shape_->router, r);
  const RouteChoice choice = shape_->rules.choice;
  const std::uint16_t entry = shape_->routes.hop(r, packet.destination);
  int out = shape_->next_channel(entry, r, in, packet.destination, packet.vnet);
  if (at(links_, out).dimension < 0) return out;
  if (!router.spray.empty()) {
    out = router.spray[at(sprayed_, r)++ % router.spray.size()];
  } else if (choice == RouteChoice::first || (entry & RoutingTables::kSeveral) == 0) {
    // There is nothing to choose.
  } else if (choice == RouteChoice::random) {
    const std::vector<int> all = shape_->routes.next_hops(r, packet.destination);
    out = all[(next_random(at(random_, r)) >> 33) % all.size()];
  } else {
    out = most_free(r, packet.destination, now);
  }
  ++packet.hops;
  packet.vc_class = narrow<std::uint8_t>(shape_->next_class(in, out, packet.destination, packet.vc_class));
  packet.destination = shape_->next_address(out, packet.destination);
  return out;
}

int RouteComputation::most_free(int r, int destination, Cycle now) {
  int out = -1;
  std::int64_t most = -1;
  for (int candidate : shape_->routes.next_hops(r, destination)) {
    channels_->take_credits(candidate, now);
    const std::int64_t places = channels_->free_places(candidate);
    if (places <= most) continue;
    most = places;
    out = candidate;
  }
  return out;
}

void RouteComputation::snapshot(Snapshot& snapshot) const {
  for (int r = 0; r < shape_->routers(); ++r) {
    const std::vector<int>& spray = at(shape_->router, r).spray;
    if (!spray.empty()) snapshot.put(wide(at(sprayed_, r) % spray.size()));
    if (shape_->rules.choice == RouteChoice::random) snapshot.put(wide(at(random_, r)));
  }
}

void RouteComputation::repeat(const std::vector<std::uint32_t>& before, std::int64_t count) {
  for (std::size_t r = 0; r < sprayed_.size(); ++r) sprayed_[r] += narrow<std::uint32_t>(count) * (sprayed_[r] - before[r]);
}

}  // namespace astra::packet
