// SPDX-License-Identifier: GPL-2.0-only
#include "routes.hpp"

#include <algorithm>

namespace astra::tcp {

Routes::Routes(const Plan& plan) : plan_(plan), leaving_(plan.nodes), entering_(plan.nodes), tables_(plan.npus) {
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
  const Routes routes(plan);
  Check found;
  for (std::uint32_t target = 0; target < plan.npus; ++target) {
    const std::vector<int> distance = routes.distances(target);
    for (std::uint32_t source = 0; source < plan.npus; ++source) {
      if (distance[source] < 0 && !found.unreachable) found.unreachable = {source, target};
      found.longest = std::max(found.longest, distance[source]);
    }
  }
  return found;
}

const Routes::Table& Routes::table(std::uint32_t npu) {
  std::unique_ptr<Table>& known = tables_[npu];
  if (known) return *known;
  known = std::make_unique<Table>();
  known->distance = distances(npu);
  known->begin.push_back(0);
  for (std::uint32_t node = 0; node < plan_.nodes; ++node) {
    for (const std::uint32_t link : leaving_[node]) {
      const std::uint32_t next = plan_.links[link].target;
      const bool forwards = next == npu || next >= plan_.npus || plan_.through_npus;
      if (forwards && known->distance[next] >= 0 && known->distance[next] + 1 == known->distance[node]) known->links.push_back(link);
    }
    known->begin.push_back(static_cast<std::uint32_t>(known->links.size()));
  }
  return *known;
}

// Breadth first, from the NPU against the direction of links.
std::vector<int> Routes::distances(std::uint32_t npu) const {
  std::vector<int> distance(plan_.nodes, -1);
  std::vector<std::uint32_t> waiting{npu};
  distance[npu] = 0;
  for (std::size_t place = 0; place < waiting.size(); ++place) {
    const std::uint32_t node = waiting[place];
    if (node != npu && node < plan_.npus && !plan_.through_npus) continue;
    for (const std::uint32_t link : entering_[node]) {
      const std::uint32_t before = plan_.links[link].source;
      if (distance[before] >= 0) continue;
      distance[before] = distance[node] + 1;
      waiting.push_back(before);
    }
  }
  return distance;
}

}  // namespace astra::tcp
