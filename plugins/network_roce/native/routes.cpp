#include "routes.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace astra::roce {

Routes::Routes(const Settings& settings, const Plan& plan)
    : settings_(settings), plan_(plan), search_(fabric::largest_cost(plan.links)), leaving_(plan.nodes) {
  for (LinkId link = 0; link < plan.links.size(); ++link) leaving_[plan.links[link].source].push_back(link);
  order_ports();
  for (const DimensionPlan& dimension : plan.dimensions) {
    auto& destination_order = destination_order_.emplace_back();
    std::vector<fabric::Link> links;
    for (const auto& [source, target] : dimension.ends) links.push_back({source, target});
    if (!dimension.destination_order.empty())
      destination_order.emplace(fabric::Graph(static_cast<int>(dimension.nodes), 0, links), dimension.destination_order);
  }
  find(std::vector<bool>(plan.links.size(), true));
}

void Routes::leave_one(NodeId node, NodeId npu, std::vector<LinkId>& ports) const {
  const auto dimension_of = [this](LinkId link) { return plan_.links[link].dimension; };
  const auto before = [&](LinkId one, LinkId other) { return dimension_of(one) < dimension_of(other); };
  const int lowest = dimension_of(*std::min_element(ports.begin(), ports.end(), before));
  std::erase_if(ports, [&](LinkId link) { return dimension_of(link) != lowest; });
  const DimensionPlan& dimension = plan_.dimensions[static_cast<std::size_t>(lowest)];
  const auto position = [&](NodeId of) { return of / dimension.stride % dimension.size; };
  const auto place = [&](NodeId at) { return static_cast<int>(plan_.is_switch[at] ? plan_.places[at] : position(plan_.places[at])); };
  const auto target = [&](LinkId link) { return place(plan_.links[link].target); };
  // Links are numbered as the topology lists them.
  std::sort(ports.begin(), ports.end(), [&](LinkId a, LinkId b) { return std::pair(target(a), a) < std::pair(target(b), b); });
  std::size_t chosen = 0;
  if (const auto& destination_order = destination_order_[static_cast<std::size_t>(lowest)]) {
    const auto turn = static_cast<std::size_t>(dimension.destination_order[position(npu)].second);
    chosen = destination_order->choose(place(node), turn, target(ports.front()), target(ports.back()), ports.size());
  } else {
    // The next one upwards: on a ring both directions may be as short.
    while (chosen + 1 < ports.size() && target(ports[chosen]) < place(node)) ++chosen;
    if (target(ports[chosen]) < place(node)) chosen = 0;
  }
  ports.assign(1, ports[chosen]);
}

void Routes::order_ports() {
  // Equal ways go by the number of the next node; of several links to one node, by the order in which they are listed.
  for (auto& ports : leaving_) {
    std::stable_sort(ports.begin(), ports.end(), [this](LinkId one, LinkId other) {
      const NodeId a = plan_.links[one].target;
      const NodeId b = plan_.links[other].target;
      return plan_.descending_order ? plan_.ids[a] > plan_.ids[b] : plan_.ids[a] < plan_.ids[b];
    });
  }
}

void Routes::find(const std::vector<bool>& up) {
  const std::size_t npus = plan_.npus;
  set_of_.assign(npus * plan_.nodes, 0);
  trip_of_.assign(npus * npus, 0);
  trips_.assign(1, {});
  trip_numbers_.clear();
  ports_.clear();
  first_.assign(2, 0);
  sets_.clear();
  sets_[{}] = 0;
  longest_round_trip_ = largest_product_ = 0;
  set_of_middle_.assign(plan_.middles.size() * plan_.nodes, 0);
  for (NodeId npu = 0; npu < plan_.npus; ++npu) find_to(npu, up);
  for (std::uint32_t middle = 0; middle < plan_.middles.size(); ++middle) find_to_middle(middle, up);
}

void Routes::find_to(NodeId npu, const std::vector<bool>& up) {
  struct Way {
    std::int64_t delay = 0;  // ns
    std::int64_t sending = 0;
    std::int64_t rate = 0;
  };
  std::vector<Way> way(plan_.nodes);
  std::vector<int> distance(plan_.nodes, fabric::kUnreachable);
  std::vector<LinkId> nearer;
  search_.search(npu, distance, [&](NodeId node, const auto& reach) {
    if (node != npu && node < plan_.npus) return true;
    for (const LinkId back : leaving_[node]) {
      const LinkId link = plan_.reverse[back];
      if (link == kNone || !up[link]) continue;
      const LinkSpec& spec = plan_.links[link];
      if (!reach(spec.source, spec.cost)) continue;
      Way& before = way[spec.source];
      before.delay = way[node].delay + spec.delay / settings_.ticks_per_ns;
      before.sending = way[node].sending + static_cast<std::int64_t>(settings_.payload_bytes) * 8'000'000'000 / spec.rate;
      before.rate = node == npu ? spec.rate : std::min(way[node].rate, spec.rate);
    }
    return true;
  });
  // If a link has failed, routes are the shortest remaining ones.
  const bool named = !plan_.named.empty() && std::find(up.begin(), up.end(), false) == up.end();
  for (NodeId node = 0; node < plan_.nodes; ++node) {
    if (distance[node] == fabric::kUnreachable || node == npu) continue;
    if (named) {
      nearer = plan_.named[static_cast<std::size_t>(node) * plan_.npus + npu];
    } else {
      find_nearer(node, npu, distance, up, nearer);
      if (nearer.size() > 1 && !plan_.dimensions.empty()) leave_one(node, npu, nearer);
    }
    set_of_[static_cast<std::size_t>(node) * plan_.npus + npu] = number_of(nearer);
    if (node < plan_.npus && !named) {
      const std::int64_t trip = 2 * way[node].delay + way[node].sending;
      note_trip(node, npu, {trip, static_cast<std::int64_t>(static_cast<__int128>(trip) * way[node].rate / 8'000'000'000)});
    }
  }
  if (named) note_named_trips(npu);
}

void Routes::find_to_middle(std::uint32_t middle, const std::vector<bool>& up) {
  const NodeId target = plan_.middles[middle];
  std::vector<int> distance(plan_.nodes, fabric::kUnreachable);
  search_.search(target, distance, [&](NodeId node, const auto& reach) {
    if (node < plan_.npus) return true;
    for (const LinkId back : leaving_[node]) {
      const LinkId link = plan_.reverse[back];
      if (link != kNone && up[link]) reach(plan_.links[link].source, plan_.links[link].cost);
    }
    return true;
  });
  std::vector<LinkId> nearer;
  for (NodeId node = plan_.npus; node < plan_.nodes; ++node) {
    if (distance[node] == fabric::kUnreachable || node == target) continue;
    find_nearer(node, target, distance, up, nearer);
    set_of_middle_[static_cast<std::size_t>(node) * plan_.middles.size() + middle] = number_of(nearer);
  }
}

void Routes::find_nearer(NodeId node, NodeId target, const std::vector<int>& distance, const std::vector<bool>& up,
                         std::vector<LinkId>& nearer) const {
  nearer.clear();
  for (const LinkId link : leaving_[node]) {
    const LinkSpec& spec = plan_.links[link];
    const bool forwards = spec.target == target || spec.target >= plan_.npus;
    const bool reached = distance[spec.target] != fabric::kUnreachable;
    if (up[link] && forwards && reached && distance[spec.target] + spec.cost == distance[node]) nearer.push_back(link);
  }
  const auto is_preferred = [this](LinkId link) { return plan_.preferred[plan_.links[link].target]; };
  if (std::any_of(nearer.begin(), nearer.end(), is_preferred)) std::erase_if(nearer, std::not_fn(is_preferred));
}

std::uint32_t Routes::number_of(const std::vector<LinkId>& ports) {
  const auto [result, fresh] = sets_.try_emplace(ports, static_cast<std::uint32_t>(first_.size() - 1));
  if (fresh) {
    ports_.insert(ports_.end(), ports.begin(), ports.end());
    first_.push_back(static_cast<std::uint32_t>(ports_.size()));
  }
  return result->second;
}

void Routes::note_named_trips(NodeId npu) {
  for (NodeId source = 0; source < plan_.npus; ++source) {
    std::int64_t delay = 0, sending = 0, rate = std::numeric_limits<std::int64_t>::max();
    NodeId node = source;
    while (node != npu) {
      const auto ports = next_hops(node, npu);
      if (ports.empty()) break;
      const LinkSpec& spec = plan_.links[ports[0]];
      delay += spec.delay / settings_.ticks_per_ns;
      sending += static_cast<std::int64_t>(settings_.payload_bytes) * 8'000'000'000 / spec.rate;
      rate = std::min(rate, spec.rate);
      node = spec.target;
    }
    const std::int64_t trip = 2 * delay + sending;
    if (node == npu && source != npu)
      note_trip(source, npu, {trip, static_cast<std::int64_t>(static_cast<__int128>(trip) * rate / 8'000'000'000)});
  }
}

void Routes::note_trip(NodeId source, NodeId target, Trip trip) {
  const auto [result, fresh] = trip_numbers_.try_emplace({trip.ns, trip.product}, static_cast<std::uint32_t>(trips_.size()));
  if (fresh) trips_.push_back(trip);
  trip_of_[pair(source, target)] = result->second;
  longest_round_trip_ = std::max(longest_round_trip_, trip.ns);
  largest_product_ = std::max(largest_product_, trip.product);
}

}  // namespace astra::roce
