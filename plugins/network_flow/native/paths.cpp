#include "paths.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace astra::flow {

namespace {

// Distances are kept up to this many, and only of searches that had to look at this part of the nodes.
constexpr std::size_t kMostDistances = std::size_t{1} << 23;
constexpr int kPartWorthKeeping = 8;

// SplitMix64 (Steele, Lea, Flood 2014): mixes the bits of a number.
std::uint64_t mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

std::uint64_t unsigned_of(int number) { return static_cast<std::uint64_t>(number); }

}  // namespace

Paths::Paths(const Group& group, const Rules& rules)
    : group_(group),
      routing_(rules.routing),
      npus_forward_(rules.npus_forward),
      seed_(rules.seed),
      leaving_(index(group.nodes)),
      entering_(index(group.nodes)),
      ways_(largest_cost(group.links)),
      scratch_(index(group.nodes), kNoWay) {
  for (int link = 0; link < count_of(group.links); ++link) {
    at(leaving_, at(group.links, link).source).push_back(link);
    at(entering_, at(group.links, link).target).push_back(link);
  }
  if (routing_ == Routing::valiant || routing_ == Routing::ugal) {
    beside_.resize(index(group.size));
    const bool switched = group.nodes > group.size;
    for (int position = 0; position < group.size; ++position) {
      if (!switched) at(beside_, position).push_back(position);
      for (int link : at(leaving_, position)) {
        const int next = at(group.links, link).target;
        if (group.is_switch(next)) at(beside_, position).push_back(next);
      }
      middles_.insert(middles_.end(), at(beside_, position).begin(), at(beside_, position).end());
    }
    std::sort(middles_.begin(), middles_.end());
    middles_.erase(std::unique(middles_.begin(), middles_.end()), middles_.end());
  }
  if (group.turns.empty() || routing_ != Routing::destination) return;
  std::vector<std::pair<int, int>> ends, turns;
  for (const GroupLink& link : group.links) ends.emplace_back(link.source, link.target);
  for (int position = 0; position < group.size; ++position) turns.emplace_back(position, at(group.turns, position));
  turns_.emplace(index(group.nodes), ends, turns);
}

bool Paths::find(int from, int to, int source, int destination, bool around, Way& way) {
  if (around && detour(from, to, way)) return true;
  bool through_npus = false;
  const Distances* const distance = reach(from, to, through_npus);
  if (!distance) return false;
  if (routing_ == Routing::split || routing_ == Routing::valiant || routing_ == Routing::ugal) {
    spread(from, to, *distance, through_npus, way);
  } else {
    walk(from, to, *distance, through_npus, source, destination, way);
  }
  return true;
}

const Paths::Distances* Paths::reach(int from, int to, bool& through_npus) {
  const bool only_through_npus = npus_forward_ == Forwarding::always || group_.nodes == group_.size;
  through_npus = only_through_npus && npus_forward_ != Forwarding::never;
  const Distances* distance = &distances(from, to, through_npus);
  if (at(*distance, from) == kNoWay && npus_forward_ == Forwarding::if_needed && !only_through_npus) {
    through_npus = true;
    distance = &distances(from, to, through_npus);
  }
  return at(*distance, from) == kNoWay ? nullptr : distance;
}

bool Paths::detour(int from, int to, Way& way) {
  const auto is_beside = [this](int position, int node) {
    const std::vector<int>& near = at(beside_, position);
    return std::find(near.begin(), near.end(), node) != near.end();
  };
  for (const int node : at(beside_, from)) {
    if (is_beside(to, node)) return false;  // one switch joins them
  }
  std::map<int, double> shares;
  int count = 0;
  for (const int middle : middles_) {
    if (is_beside(from, middle) || is_beside(to, middle)) continue;
    Way part;
    for (const auto& [begin, end] : {std::pair(from, middle), std::pair(middle, to)}) {
      bool through_npus = false;
      const Distances* const distance = reach(begin, end, through_npus);
      if (distance) spread(begin, end, *distance, through_npus, part);
      if (!distance) part.crossings.clear();
      if (!distance) break;
    }
    if (part.crossings.empty()) continue;
    ++count;
    way.latency_ns = std::max(way.latency_ns, part.latency_ns);
    for (const Crossing& crossing : part.crossings) shares[crossing.link] += crossing.share;
  }
  for (const auto& [link, share] : shares) way.crossings.push_back({link, share / count});
  return count > 0;
}

const Paths::Distances& Paths::distances(int from, int to, bool through_npus) {
  const std::int64_t key = std::int64_t{2} * to + (through_npus ? 1 : 0);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  if (!group_.next_links.empty()) {
    Distances named(index(group_.nodes), kNoWay);
    measure_named(to, named);
    return known_.emplace(key, std::move(named)).first->second;
  }
  for (int node : reached_) at(scratch_, node) = kNoWay;
  search(from, to, through_npus, scratch_);
  if (count_of(reached_) < group_.nodes / kPartWorthKeeping) return scratch_;
  if (held_ + index(group_.nodes) > kMostDistances) {
    known_.clear();
    held_ = 0;
  }
  held_ += index(group_.nodes);
  Distances whole(index(group_.nodes), kNoWay);
  for (int node : reached_) at(scratch_, node) = kNoWay;
  search(kNoWay, to, through_npus, whole);
  reached_.clear();
  return known_.emplace(key, std::move(whole)).first->second;
}

void Paths::measure_named(int to, Distances& distance) const {
  at(distance, to) = 0;
  const auto measure = [&](const auto& self, int node) -> int {
    int& known = at(distance, node);
    if (known != kNoWay) return known;
    int furthest = kNoWay;
    for (int link : at(group_.next_links, node * group_.size + to)) {
      const int rest = self(self, at(group_.links, link).target);
      if (rest != kNoWay) furthest = std::max(furthest, rest + 1);
    }
    return at(distance, node) = furthest;
  };
  for (int node = 0; node < group_.nodes; ++node) measure(measure, node);
}

// From the destination back, until the distance of `from` is known.
void Paths::search(int from, int to, bool through_npus, Distances& distance) {
  reached_.assign(1, to);
  ways_.search(to, distance, [&](int node, const auto& reach) {
    if (node == from) return false;
    if (node != to && !through_npus && !group_.is_switch(node)) return true;
    for (int link : at(entering_, node)) {
      const GroupLink& crossed = at(group_.links, link);
      const bool is_new = at(distance, crossed.source) == kNoWay;
      if (reach(crossed.source, crossed.cost) && is_new) reached_.push_back(crossed.source);
    }
    return true;
  });
}

void Paths::nearer(int node, int to, const Distances& distance, bool through_npus, std::vector<int>& links) const {
  if (!group_.next_links.empty()) {
    links = at(group_.next_links, node * group_.size + to);
    return;
  }
  links.clear();
  for (int link : at(leaving_, node)) {
    const GroupLink& crossed = at(group_.links, link);
    // An NPU that does not forward has a distance, too: that of its own messages.
    if (!through_npus && crossed.target != to && !group_.is_switch(crossed.target)) continue;
    const int left = at(distance, crossed.target);
    if (left != kNoWay && left == at(distance, node) - crossed.cost) links.push_back(link);
  }
}

std::size_t Paths::in_turn(int node, int to, std::vector<int>& links) const {
  auto target = [&](int link) { return at(group_.links, link).target; };
  std::stable_sort(links.begin(), links.end(), [&](int a, int b) { return target(a) < target(b); });
  return turns_->choose(node, index(at(group_.turns, to)), target(links.front()), target(links.back()), links.size());
}

std::size_t Paths::upwards(int node, std::vector<int>& links) const {
  auto target = [&](int link) { return at(group_.links, link).target; };
  std::stable_sort(links.begin(), links.end(), [&](int a, int b) { return target(a) < target(b); });
  const auto found = std::find_if(links.begin(), links.end(), [&](int link) { return target(link) > node; });
  return found == links.end() ? 0 : static_cast<std::size_t>(found - links.begin());
}

double Paths::latency_over(int link) const {
  const GroupLink& crossed = at(group_.links, link);
  const bool switched = group_.is_switch(crossed.target);
  return crossed.latency_ns + (switched ? at(group_.switch_latency_ns, crossed.target - group_.size) : 0.0);
}

void Paths::walk(int from, int to, const Distances& distance, bool through_npus, int source, int destination, Way& way) const {
  std::vector<int> links;
  const std::uint64_t pair = mixed(mixed(seed_ ^ unsigned_of(source)) ^ unsigned_of(destination));
  for (int node = from; node != to;) {
    nearer(node, to, distance, through_npus, links);
    std::uint64_t choice = 0;
    if (links.size() > 1 && routing_ == Routing::hash) choice = mixed(pair ^ (unsigned_of(node) << 32)) % links.size();
    if (!group_.next_links.empty()) {
      // Named routes are in the order of the topology.
    } else if (links.size() > 1 && turns_) {
      choice = in_turn(node, to, links);
    } else if (links.size() > 1 && routing_ == Routing::destination) {
      choice = upwards(node, links);
    }
    const int link = links[choice];
    way.crossings.push_back({link, 1.0});
    way.latency_ns += latency_over(link);
    node = at(group_.links, link).target;
  }
}

// Every node passes on equal parts over all links to nodes that are nearer.
void Paths::spread(int from, int to, const Distances& distance, bool through_npus, Way& way) const {
  struct Part {
    double share = 0;
    double latency_ns = 0;
  };
  std::vector<int> links;
  std::map<std::pair<int, int>, Part> ahead{{{-at(distance, from), from}, {1.0, 0.0}}};  // by distance, furthest first, and node
  while (ahead.begin()->first.first < 0) {
    const auto [place, part] = *ahead.begin();
    ahead.erase(ahead.begin());
    nearer(place.second, to, distance, through_npus, links);
    const double share = part.share / real(links.size());
    for (int link : links) {
      way.crossings.push_back({link, share});
      const int next = at(group_.links, link).target;
      Part& there = ahead[{-at(distance, next), next}];
      there.share += share;
      there.latency_ns = std::max(there.latency_ns, part.latency_ns + latency_over(link));
    }
  }
  way.latency_ns += ahead.begin()->second.latency_ns;
}

}  // namespace astra::flow
