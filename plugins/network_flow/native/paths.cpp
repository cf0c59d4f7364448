#include "paths.hpp"

#include <algorithm>
#include <map>

namespace astra::flow {

Paths::Paths(const Group& group, const Rules& rules)
    : group_(group),
      routing_(rules.routing),
      seed_(rules.seed),
      graph_(group.nodes, group.size, group.links,
             rules.routing == Routing::destination ? fabric::LinkOrder::target : fabric::LinkOrder::listed),
      routes_(graph_, rules.npus_forward, &group.next_links),
      by_destination_(graph_, rules.routing == Routing::destination ? group.destination_order : std::vector<int>(), true) {
  if (routing_ == Routing::valiant || routing_ == Routing::ugal) list_middles();
}

void Paths::list_middles() {
  beside_.resize(index(group_.size));
  const bool switched = group_.nodes > group_.size;
  for (int position = 0; position < group_.size; ++position) {
    std::vector<int>& beside = at(beside_, position);
    if (!switched) beside.push_back(position);
    for (const int link : graph_.leaving(position)) {
      if (!graph_.is_host(graph_.target(link))) beside.push_back(graph_.target(link));
    }
    middles_.insert(middles_.end(), beside.begin(), beside.end());
  }
  std::sort(middles_.begin(), middles_.end());
  middles_.erase(std::unique(middles_.begin(), middles_.end()), middles_.end());
}

bool Paths::find(int from, int to, int source, int destination, bool around, GroupPath& path) {
  if (around && detour(from, to, path)) return true;
  const fabric::Row row = routes_.row(from, to);
  if (!row) return false;
  if (routing_ == Routing::split || routing_ == Routing::valiant || routing_ == Routing::ugal) {
    spread(row, from, path);
  } else {
    walk(row, from, source, destination, path);
  }
  return true;
}

bool Paths::is_beside(int position, int node) const {
  const std::vector<int>& near = at(beside_, position);
  return std::find(near.begin(), near.end(), node) != near.end();
}

bool Paths::detour(int from, int to, GroupPath& path) {
  for (const int node : at(beside_, from)) {
    if (is_beside(to, node)) return false;  // one switch joins them
  }
  std::map<int, double> shares;
  int count = 0;
  for (const int middle : middles_) {
    if (is_beside(from, middle) || is_beside(to, middle)) continue;
    GroupPath part;
    if (const fabric::Row there = routes_.row(from, middle)) spread(there, from, part);
    const fabric::Row onwards = part.crossings.empty() ? fabric::Row{} : routes_.row(middle, to);
    if (!onwards) continue;
    spread(onwards, middle, part);
    ++count;
    path.latency_ns = std::max(path.latency_ns, part.latency_ns);
    for (const Crossing& crossing : part.crossings) shares[crossing.link] += crossing.share;
  }
  for (const auto& [link, share] : shares) path.crossings.push_back({link, share / count});
  return count > 0;
}

double Paths::latency_over(int link) const {
  const GroupLink& crossed = at(group_.links, link);
  const bool switched = !graph_.is_host(crossed.target);
  return crossed.latency_ns + (switched ? at(group_.switch_latency_ns, crossed.target - group_.size) : 0.0);
}

void Paths::walk(const fabric::Row& row, int from, int source, int destination, GroupPath& path) const {
  const auto cross = [&](int link) {
    path.crossings.push_back({link, 1.0});
    path.latency_ns += latency_over(link);
  };
  if (routing_ == Routing::hash) {
    routes_.walk(row, from, fabric::TieByHash(source, destination, seed_), cross);
  } else if (routing_ == Routing::destination && !routes_.is_named()) {
    routes_.walk(row, from, by_destination_, cross);
  } else {
    routes_.walk(row, from, fabric::TieFirst(), cross);
  }
}

void Paths::spread(const fabric::Row& row, int from, GroupPath& path) const {
  struct Part {
    double share = 0;
    double latency_ns = 0;
  };
  const auto pass = [&](int link, int count, const Part& here, Part& there) {
    const double share = here.share / real(count);
    path.crossings.push_back({link, share});
    there.share += share;
    there.latency_ns = std::max(there.latency_ns, here.latency_ns + latency_over(link));
  };
  path.latency_ns += routes_.spread(row, from, Part{1.0, 0.0}, pass).latency_ns;
}

}  // namespace astra::flow
