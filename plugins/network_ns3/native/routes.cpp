// SPDX-License-Identifier: GPL-2.0-only
#include "routes.hpp"

#include <algorithm>

namespace astra::tcp {

Routes::Routes(const Plan& plan)
    : graph_(static_cast<int>(plan.nodes), static_cast<int>(plan.npus), plan.links),
      routes_(graph_, plan.through_npus ? fabric::HostForwarding::always : fabric::HostForwarding::never),
      known_(plan.npus) {}

std::span<const int> Routes::next_links(std::uint32_t node, std::uint32_t npu) {
  std::optional<fabric::NextLinks>& known = known_[npu];
  if (!known) known = routes_.next_links(static_cast<int>(npu));
  return (*known)[static_cast<int>(node)];
}

Routes::Check Routes::check(const Plan& plan) {
  Routes routes(plan);
  Check result;
  for (std::uint32_t target = 0; target < plan.npus; ++target) {
    const std::vector<int> links = routes.most_links(static_cast<int>(target));
    for (std::uint32_t source = 0; source < plan.npus; ++source) {
      if (links[source] == fabric::kUnreachable && !result.unreachable) result.unreachable = {source, target};
      result.longest = std::max(result.longest, links[source]);
    }
  }
  return result;
}

// Nearest nodes first, so that those behind a link are known.
std::vector<int> Routes::most_links(int npu) {
  const fabric::Row row = routes_.row(fabric::Routes::kAnySource, npu);
  std::vector<std::pair<int, int>> nearest;  // distance and node
  for (int node = 0; node < graph_.nodes(); ++node) nearest.emplace_back(at(*row.distance, node), node);
  std::sort(nearest.begin(), nearest.end());
  std::vector<int> most(index(graph_.nodes()), fabric::kUnreachable), next;
  for (const auto& [distance, node] : nearest) {
    if (distance != fabric::kUnreachable) at(most, node) = 0;
    routes_.next_links(row, node, next);
    for (const int link : next) at(most, node) = std::max(at(most, node), at(most, graph_.target(link)) + 1);
  }
  return most;
}

}  // namespace astra::tcp
