#include "routing/routing_tables.hpp"

#include <algorithm>
#include <stdexcept>

#include "routing/vc_classes.hpp"

namespace astra::packet {

RoutingTables::RoutingTables(Layout layout) : layout_(layout) {
  for (int d = 0; d < layout_.dimensions(); ++d) dimensions_.emplace_back(layout_, d);
}

void RoutingTables::make() {
  for (const RouterSpec& spec : layout_.router) {
    if (spec.outputs.size() >= TableEntry::kUnreachable) throw std::invalid_argument("a router has too many links");
    coordinate_.insert(coordinate_.end(), spec.coordinates.begin(), spec.coordinates.end());
  }
  std::vector<bool> collapsed;
  for (const DimensionRoutes& routes : dimensions_) collapsed.push_back(routes.is_collapsed());
  is_collapsed_ = std::find(collapsed.begin(), collapsed.end(), true) != collapsed.end();
  addresses_ = Addresses(layout_, is_collapsed_ ? collapsed : std::vector<bool>{});
  for (DimensionRoutes& routes : dimensions_) routes.make();
  make_hops();
  for (int d = 0; d < layout_.dimensions(); ++d) classes_.push_back(classes_needed(layout_, dimension(d), d));
}

bool RoutingTables::expanded_routes_are_whole() const {
  for (int d = 0; d < layout_.dimensions(); ++d) {
    if (dimension(d).is_collapsed() || !dimension(d).has_choices()) continue;
    const bool parts = std::any_of(layout_.channel.begin(), layout_.channel.end(),
                                   [d](const ChannelSpec& spec) { return spec.dimension == d && spec.flit_time.ps != 0; });
    if (parts || layout_.rules.choice() == RouteChoice::random) return false;
  }
  return true;
}

void RoutingTables::make_hops() {
  if (layout_.router.size() * index(addresses_.count()) > kMostHops) return;
  std::vector<std::uint16_t> created;
  for (int r = 0; r < layout_.routers(); ++r) {
    for (int address = 0; address < addresses_.count(); ++address) created.push_back(look_up(r, address));
  }
  hop_ = std::move(created);
}

std::uint16_t RoutingTables::look_up(int r, int address) const {
  const int d = differing_dimension(r, address);
  return d < 0 ? TableEntry::kHere : dimension(d).entry(r, addresses_.position(address, d));
}

std::vector<int> RoutingTables::next_hops(int r, int address) const {
  std::vector<int> result;
  const int d = differing_dimension(r, address);
  if (d < 0) return result;
  const std::vector<int>& outputs = at(layout_.router, r).outputs;
  dimension(d).each_shortest(r, addresses_.position(address, d), [&](std::size_t place) { result.push_back(outputs[place]); });
  return result;
}

}  // namespace astra::packet
