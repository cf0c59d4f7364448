#include "weighted_sharing.hpp"

#include <algorithm>
#include <limits>

namespace astra::flow {

namespace {

constexpr double kHighest = std::numeric_limits<double>::infinity();

// A part of a rate, rounded down.
std::int64_t part(std::int64_t rate, std::int64_t weight, Wide weights) {
  if (weight == 1 && weights <= INT64_MAX) return rate / static_cast<std::int64_t>(weights);
  return static_cast<std::int64_t>(Wide{rate} * weight / weights);
}

}  // namespace

WeightedSharing::WeightedSharing(const std::vector<std::int64_t>& capacity) : links_(capacity.size()), lowest_(kHighest) {
  for (int link = 0; link < count_of(links_); ++link) at(links_, link).capacity = at(links_, link).free = at(capacity, link);
}

int WeightedSharing::add(std::int64_t weight, std::int64_t bound, std::span<const std::pair<int, std::int64_t>> links) {
  if (spare_flows_.empty()) {
    spare_flows_.push_back(count_of(flows_));
    flows_.emplace_back();
    level_.emplace_back();
  }
  const int number = spare_flows_.back();
  spare_flows_.pop_back();
  const int first = shares_.take(count_of(links));
  Flow& flow = at(flows_, number);
  const bool is_even = std::all_of(links.begin(), links.end(), [&](const auto& link) { return link.second == weight; });
  flow = {weight, bound, 0, first, count_of(links), is_even};
  if (!is_even && loads_.size() < shares_.size()) loads_.resize(shares_.size());
  at(level_, number) = kHighest;
  // Its level will not be below that at which all flows of one of its links together fill it.
  double level = real(bound) / real(weight);
  for (int i = 0; i < flow.count; ++i) {
    Link& link = at(links_, links[index(i)].first);
    shares_[first + i] = {links[index(i)].first, count_of(link.flow)};
    if (!is_even) at(loads_, first + i) = {links[index(i)].second, 0};
    link.flow.push_back(number);
    ++link.flows;
    link.highest = kHighest;
    link.weight += links[index(i)].second;
    level = std::min(level, real(link.capacity) / real(link.weight));
    touched_.push_back(links[index(i)].first);
  }
  lowest_ = std::min(lowest_, level * (1 - kNear));
  return number;
}

void WeightedSharing::remove(int flow) {
  Flow& gone = at(flows_, flow);
  lowest_ = std::min(lowest_, at(level_, flow) * (1 - kNear));
  for (int i = gone.first; i < gone.first + gone.count; ++i) leave(gone, i);
  shares_.give_back(gone.first, gone.count);
  gone.count = 0;
  spare_flows_.push_back(flow);
}

// Levels from that of the flow on may change: so the gap goes when rates are computed next.
void WeightedSharing::leave(const Flow& flow, int number) {
  const Share share = shares_[number];
  const Load had = load(flow, number);
  Link& link = at(links_, share.link);
  link.free += had.used;
  link.weight -= had.weight;
  at(link.flow, share.place) = kGap;
  --link.flows;
  if (link.flows == 0) link.flow.clear();
  if (link.flows > 0) touched_.push_back(share.link);
}

bool WeightedSharing::settle() {
  changed_.clear();
  opened_.clear();
  if (!touched_.empty()) {
    gather();
    fill();
    for (int link : gathered_) {
      at(links_, link).gathered = false;
      at(links_, link).opened.clear();
    }
    touched_.clear();
  }
  lowest_ = kHighest;
  for (int flow : opened_) changed_.push_back({flow, rate(flow)});
  return !opened_.empty();
}

// Opens all flows of touched links whose level may change, those that share links with them, and so on.
void WeightedSharing::gather() {
  gathered_.clear();
  for (int link : touched_) reach(link);
  for (std::size_t next = 0; next < gathered_.size(); ++next) {
    Link& link = at(links_, gathered_[next]);
    if (link.highest >= lowest_) open_highest(link);
  }
}

// Flows whose level may change are the last ones of the list. They come back into it in the order of their new levels, as they are fixed.
void WeightedSharing::open_highest(Link& link) {
  for (; !link.flow.empty(); link.flow.pop_back()) {
    prefetch(link.flow, count_of(link.flow) - 1, -1);
    const int number = link.flow.back();
    if (number == kGap) continue;
    if (!is_open(number)) {
      if (at(level_, number) < lowest_) break;
      open(number);
    }
    link.opened.push_back(number);
  }
  link.highest = link.flow.empty() ? 0 : at(level_, link.flow.back());
}

void WeightedSharing::prefetch(const std::vector<int>& flows, int place, int step) const {
  const auto later = [&](int steps) {
    const int there = place + steps * step;
    return there >= 0 && there < count_of(flows) ? at(flows, there) : kGap;
  };
  if (const int flow = later(24); flow != kGap) __builtin_prefetch(&at(level_, flow));
  if (const int flow = later(16); flow != kGap) __builtin_prefetch(&at(flows_, flow));
  if (const int flow = later(8); flow != kGap) __builtin_prefetch(shares_.data() + at(flows_, flow).first);
}

void WeightedSharing::reach(int number) {
  Link& link = at(links_, number);
  if (link.gathered) return;
  link.gathered = true;
  gathered_.push_back(number);
}

void WeightedSharing::open(int number) {
  const Flow& flow = at(flows_, number);
  at(level_, number) = kOpen;
  opened_.push_back(number);
  for (int i = flow.first; i < flow.first + flow.count; ++i) {
    const int crossed = shares_[i].link;
    const Load had = load(flow, i);
    Link& link = at(links_, crossed);
    link.free += had.used;
    link.open += had.weight;
    reach(crossed);
  }
}

void WeightedSharing::fill() {
  bottlenecks_.clear();
  for (int number : gathered_) {
    const Link& link = at(links_, number);
    if (link.open != 0) bottlenecks_.add(level_at(real(link.free), real(link.open)), number);
  }
  for (int number : opened_) {
    const Flow& flow = at(flows_, number);
    if (flow.bound != kNoBound) bottlenecks_.add(real(flow.bound) / real(flow.weight), ~number);
  }
  bottlenecks_.sort();
  while (!bottlenecks_.empty()) {
    const auto [level, what] = bottlenecks_.take();
    if (what < 0) {
      const Flow& flow = at(flows_, ~what);
      if (is_open(~what)) fix(~what, level, flow.bound, flow.weight);
      continue;
    }
    Link& link = at(links_, what);
    if (link.open == 0) continue;
    // Flows that have been fixed elsewhere since leave more to the others.
    const double now = level_at(real(link.free), real(link.open));
    if (now > level) {
      bottlenecks_.put_back(now, what);
    } else {
      fix_all(link, now);
    }
  }
}

void WeightedSharing::fix_all(const Link& link, double level) {
  const std::int64_t free = link.free;
  const Wide open = link.open;
  for (int place = 0; place < count_of(link.opened); ++place) {
    prefetch(link.opened, place, 1);
    const int flow = at(link.opened, place);
    if (is_open(flow)) fix(flow, level, free, open);
  }
}

// The flow gets its part, by weight, of the rate of `weight` together.
void WeightedSharing::fix(int number, double level, std::int64_t rate, Wide weight) {
  Flow& flow = at(flows_, number);
  at(level_, number) = level;
  flow.rate = std::max<std::int64_t>(1, part(rate, flow.weight, weight));
  for (int i = flow.first; i < flow.first + flow.count; ++i) {
    Share& share = shares_[i];
    Link& link = at(links_, share.link);
    share.place = count_of(link.flow);
    link.flow.push_back(number);
    Load has{flow.weight, flow.rate};
    if (!flow.is_even) {
      Load& there = at(loads_, i);
      there.used = there.weight == flow.weight ? flow.rate : part(rate, there.weight, weight);
      has = there;
    }
    link.free -= has.used;
    link.open -= has.weight;
    link.highest = std::max(link.highest, level);
  }
}

}  // namespace astra::flow
