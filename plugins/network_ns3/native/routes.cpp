// SPDX-License-Identifier: GPL-2.0-only
#include "routes.hpp"

#include <algorithm>

namespace astra::tcp {

Routes::Routes(const Plan& plan)
    : plan_(plan), search_(largest_cost(plan.links)), leaving_(plan.nodes), entering_(plan.nodes), tables_(plan.npus) {
  for (std::uint32_t link = 0; link < plan.links.size(); ++link) {
    leaving_[plan.links[link].source].push_back(link);
    entering_[plan.links[link].target].push_back(link);
  }
}

std::span<const std::uint32_t> Routes::ways(std::uint32_t node, std::uint32_t npu) {
  const Table& of = table(npu);
  return std::span(of.links).subspan(of.begin[node], of.begin[node + 1] - of.begin[node]);
}

Routes::Check Routes::check(const Plan& plan) {
  Routes routes(plan);
  Check found;
  for (std::uint32_t target = 0; target < plan.npus; ++target) {
    const std::vector<int> links = routes.distances(target).links;
    for (std::uint32_t source = 0; source < plan.npus; ++source) {
      if (links[source] == ShortestWays::kNoWay && !found.unreachable) found.unreachable = {source, target};
      found.longest = std::max(found.longest, links[source]);
    }
  }
  return found;
}

const Routes::Table& Routes::table(std::uint32_t npu) {
  std::unique_ptr<Table>& known = tables_[npu];
  if (known) return *known;
  known = std::make_unique<Table>();
  const std::vector<int> cost = distances(npu).cost;
  known->begin.push_back(0);
  for (std::uint32_t node = 0; node < plan_.nodes; ++node) {
    for (const std::uint32_t link : leaving_[node]) {
      const std::uint32_t next = plan_.links[link].target;
      const bool reached = cost[next] != ShortestWays::kNoWay;
      const bool forwards = next == npu || next >= plan_.npus || plan_.through_npus;
      if (forwards && reached && cost[next] + plan_.links[link].cost == cost[node]) known->links.push_back(link);
    }
    known->begin.push_back(static_cast<std::uint32_t>(known->links.size()));
  }
  return *known;
}

// From the NPU against the direction of links.
Routes::Distances Routes::distances(std::uint32_t npu) {
  Distances found;
  found.cost.assign(plan_.nodes, ShortestWays::kNoWay);
  found.links.assign(plan_.nodes, ShortestWays::kNoWay);
  found.links[npu] = 0;
  search_.search(npu, found.cost, [&](std::uint32_t node, const auto& reach) {
    if (node != npu && node < plan_.npus && !plan_.through_npus) return true;
    for (const std::uint32_t entering : entering_[node]) {
      const Link& link = plan_.links[entering];
      const bool cheaper = reach(link.source, link.cost);
      const bool equal = found.cost[link.source] == found.cost[node] + link.cost;
      int& links = found.links[link.source];
      if (cheaper || (equal && links <= found.links[node])) links = found.links[node] + 1;
    }
    return true;
  });
  return found;
}

}  // namespace astra::tcp
