#include "routes.hpp"

#include <algorithm>
#include <utility>

namespace astra::flow {

namespace {

// Routes are kept up to this many links.
constexpr std::size_t kMostLinks = std::size_t{1} << 22;

// Adds the uses of the same link, from the first of a path to the end of the list.
void merge(std::vector<Use>& uses, int first) {
  const auto begin = uses.begin() + first;
  std::stable_sort(begin, uses.end(), [](const Use& a, const Use& b) { return a.link < b.link; });
  auto last = begin;
  for (auto next = begin; next != uses.end(); ++next) {
    if (next == begin) continue;
    if (next->link == last->link) {
      last->share += next->share;
    } else {
      *++last = *next;
    }
  }
  if (begin != uses.end()) uses.erase(last + 1, uses.end());
}

}  // namespace

Routes::Routes(const Fabric& fabric, const Rules& rules)
    : fabric_(fabric), ack_share_(rules.ack_share), switches_only_(rules.npus_forward == fabric::HostForwarding::never) {
  for (int dimension = 0; dimension < fabric.dimensions(); ++dimension) paths_.emplace_back(fabric.group(dimension), rules);
}

Path Routes::path(int source, int destination, bool around) {
  const Key key{(std::int64_t{source} * fabric_.npus() + destination) * 2 + (around ? 1 : 0)};
  const Known* known = known_.find(key);
  const Known& path = known != nullptr ? *known : learn(key, source, destination, around);
  return {path.latency_ns, path.ns_per_byte, {uses_.data() + path.first, index(path.count)}};
}

const Routes::Known& Routes::learn(const Key& key, int source, int destination, bool around) {
  if (uses_.size() > kMostLinks) {
    known_.clear();
    uses_.clear();
  }
  const Known path = make(source, destination, around);
  return known_.find_or_add(key) = path;
}

Routes::Known Routes::make(int source, int destination, bool around) {
  Known path{0, 0, count_of(uses_), 0};
  trace(source, destination, around, path);
  if (ack_share_ > 0) {
    const int back = count_of(uses_);
    Known ignored;
    trace(destination, source, around, ignored);
    for (int use = back; use < count_of(uses_); ++use) at(uses_, use).share *= ack_share_;
    merge(uses_, path.first);
  }
  path.count = count_of(uses_) - path.first;
  return path;
}

void Routes::trace(int source, int destination, bool around, Known& path) {
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
      uses_.push_back({first + crossing.link, crossing.share});
    }
    npu = fabric_.moved(npu, dimension, to);
  }
}

}  // namespace astra::flow
