#include "routing/route_computation.hpp"

namespace astra::packet {

namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64* (Marsaglia, Vigna)
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}

}  // namespace

RouteComputation::RouteComputation(const Shape& shape, CreditChannels& credits)
    : shape_(shape),
      credits_(credits),
      links_(shape.link),
      sprayed_(shape.router.size()),
      first_(shape.rules.choice() == RouteChoice::first) {
  for (const RouterSpec& spec : shape.router) sprays_ = sprays_ || !spec.spray.empty();
  for (std::uint64_t r = 1; r <= shape.router.size(); ++r) random_.push_back((shape.rules.seed + r) * 0x9E3779B97F4A7C15ULL);
}

int RouteComputation::choose(int r, int only, int destination, bool several, Cycle now) {
  const std::vector<int>& spray = at(shape_->router, r).spray;
  if (!spray.empty()) return spray[at(sprayed_, r)++ % spray.size()];
  if (first_ || !several) return only;
  if (shape_->rules.choice() == RouteChoice::adaptive) return most_free(r, destination, now);
  const std::vector<int> all = shape_->routes.next_hops(r, destination);
  return all[(next_random(at(random_, r)) >> 33) % all.size()];
}

int RouteComputation::most_free(int r, int destination, Cycle now) {
  int out = -1;
  std::int64_t most = -1;
  for (int candidate : shape_->routes.next_hops(r, destination)) {
    credits_->take(candidate, now);
    const std::int64_t places = credits_->free_places(candidate);
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
    if (shape_->rules.choice() == RouteChoice::random) snapshot.put(wide(at(random_, r)));
  }
}

void RouteComputation::repeat(const std::vector<std::uint32_t>& before, std::int64_t count) {
  for (std::size_t r = 0; r < sprayed_.size(); ++r) sprayed_[r] += narrow<std::uint32_t>(count) * (sprayed_[r] - before[r]);
}

}  // namespace astra::packet
