#include "routes.hpp"

#include <algorithm>
#include <utility>

namespace astra::flow {

namespace {

// Routes are kept up to this many links.
constexpr std::size_t kMostLinks = std::size_t{1} << 22;

// Adds the uses of the same link.
void merge(std::vector<Use>& uses) {
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.link < b.link; });
  std::size_t last = 0;
  for (std::size_t next = 1; next < uses.size(); ++next) {
    if (uses[next].link == uses[last].link) {
      uses[last].share += uses[next].share;
    } else {
      uses[++last] = uses[next];
    }
  }
  if (!uses.empty()) uses.resize(last + 1);
}

}  // namespace

Routes::Routes(const Fabric& fabric, const Rules& rules)
    : fabric_(fabric), ack_share_(rules.ack_share), switches_only_(rules.npus_forward == fabric::HostForwarding::never) {
  for (int dimension = 0; dimension < fabric.dimensions(); ++dimension) paths_.emplace_back(fabric.group(dimension), rules);
}

const Path& Routes::path(int source, int destination, bool around) {
  const std::int64_t key = (std::int64_t{source} * fabric_.npus() + destination) * 2 + (around ? 1 : 0);
  const auto entry = known_.find(key);
  if (entry != known_.end()) return entry->second;
  Path path = make(source, destination, around);
  if (held_ + path.uses.size() > kMostLinks) {
    known_.clear();
    held_ = 0;
  }
  held_ += path.uses.size();
  return known_.emplace(key, std::move(path)).first->second;
}

Path Routes::make(int source, int destination, bool around) {
  Path path = trace(source, destination, around);
  if (ack_share_ > 0) {
    for (const Use& back : trace(destination, source, around).uses) path.uses.push_back({back.link, back.share * ack_share_});
    merge(path.uses);
  }
  return path;
}

Path Routes::trace(int source, int destination, bool around) {
  Path path;
  int npu = source;
  for (int dimension = 0; dimension < fabric_.dimensions(); ++dimension) {
    const int from = fabric_.position(npu, dimension), to = fabric_.position(destination, dimension);
    if (from == to) continue;
    const Group& group = fabric_.group(dimension);
    GroupPath own;
    if (!at(paths_, dimension).find(from, to, source, destination, around, own)) {
      throw RouteError("there is no route from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination) +
                       ": in dimension " + std::to_string(dimension) + " no links lead from position " + std::to_string(from) +
                       " to position " + std::to_string(to) + (switches_only_ ? " over switches alone (npus_forward=never)" : ""));
    }
    const int first = fabric_.first_link(npu, dimension);
    path.latency_ns += own.latency_ns + 2 * group.nic_latency_ns;
    for (const Crossing& crossing : own.crossings) {
      path.ns_per_byte += crossing.share / at(group.links, crossing.link).bandwidth;
      path.uses.push_back({first + crossing.link, crossing.share});
    }
    npu = fabric_.moved(npu, dimension, to);
  }
  return path;
}

}  // namespace astra::flow
