#include "timing/windows.hpp"

namespace astra::packet {

namespace {

constexpr Cycle kShortest = 4;      // cycles of a window; for less, data in the cache are not worth the upkeep of many tiles,
constexpr Cycle kShared = 2;        // but threads may be
constexpr int kRoutersOfTile = 16;  // measured: their state stays in the second cache, and they share its upkeep

// Cycles on the wires of a link, at least.
Cycle latency(const Shape& shape, int c) {
  const Link& link = at(shape.link, c);
  return link.delay >= 0 ? link.delay : at(shape.channel, c).latency.cycles;
}

}  // namespace

Windows::Windows(const Shape& shape) : shape_(shape), routers_of_tile_(shape.routers()) {
  const Rules& rules = shape.rules;
  if (!rules.windows || !shape.dividers.of_unit.empty() || rules.same_cycle() || rules.serialized_credits || shape.routes.is_collapsed())
    return;
  Cycle least_link = kNever;
  Cycle least_injection_port = kNever;
  for (int c = 0; c < shape.channels(); ++c) {
    Cycle& least = at(shape.link, c).dimension >= 0 ? least_link : least_injection_port;
    least = std::min(least, latency(shape, c));
  }
  if (least_link == kNever) return;
  // Flits leave behind the crossbar, credits in the next cycle.
  const Cycle length = least_link + std::min(rules.switch_traversal(), 1 + rules.credit_delay);
  const int threads = std::min(rules.threads, shape.routers());
  if (length >= kShortest) {
    routers_of_tile_ = std::min(kRoutersOfTile, shape.routers() / threads);
  } else if (length >= kShared && threads > 1) {
    routers_of_tile_ = (shape.routers() + threads - 1) / threads;
  }
  tiles_ = routers_of_tile_ < shape.routers();
  if (!tiles_) return;
  length_ = length;
  link_ = least_link + rules.switch_traversal() + (rules.allocation == Allocation::combined ? rules.router_latency - 1 : 0);
  one_way_ = rules.choice() == RouteChoice::first &&
             std::all_of(shape.router.begin(), shape.router.end(), [](const RouterSpec& spec) { return spec.spray.empty(); });
  interface_ = 1 + 2 * least_injection_port + link_ - least_link;
}

// If a packet chooses among paths, some may be of fewer links.
int Windows::least_hops(int source, int destination, int vnet) const {
  if (one_way_) return std::max(0, hops_between(*shape_, source, destination, vnet));
  return at(shape_->node_router, source) == at(shape_->node_router, destination) ? 0 : 1;
}

Cycle Windows::follow(int source, int destination, int vnet) {
  if (!tiles_) return 0;
  const Cycle least = interface_ + link_ * least_hops(source, destination, vnet);
  length_ = std::min(length_, least);
  return least;
}

}  // namespace astra::packet
