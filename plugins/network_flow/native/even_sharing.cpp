#include "even_sharing.hpp"

#include <algorithm>

namespace astra::flow {

namespace {

constexpr int kNotCrossed = -1;
constexpr int kFewGaps = 8;

}  // namespace

EvenSharing::EvenSharing(const std::vector<std::int64_t>& capacity)
    : links_(capacity.size()),
      groups_(capacity.size()),
      level_(capacity.size() + 1, kOpen),
      crossings_(capacity.size()),
      users_(capacity.size()),
      slot_(capacity.size(), kNotCrossed) {
  for (int link = 0; link < links(); ++link) at(links_, link).capacity = at(links_, link).free = at(capacity, link);
}

int EvenSharing::add(std::int64_t, std::int64_t, std::span<const std::pair<int, std::int64_t>> used) {
  if (spare_flows_.empty()) {
    spare_flows_.push_back(count_of(flows_));
    flows_.emplace_back();
    group_.emplace_back();
  }
  const int number = spare_flows_.back();
  spare_flows_.pop_back();
  const int first = shares_.take(count_of(used));
  at(flows_, number) = {first, count_of(used), 0};
  at(group_, number) = links();
  // Its level will not be below that at which all flows of one of its links together fill it.
  double level = kHighest;
  for (int share = first; const auto& [used_link, weight] : used) {
    Link& link = at(links_, used_link);
    std::vector<User>& users = at(users_, used_link);
    shares_[share] = {used_link, count_of(users), 0};
    users.push_back({number, share++});
    ++link.fresh;
    level = std::min(level, real(link.capacity) / real(count_of(users)));
    touched_.push_back(used_link);
  }
  lowest_ = std::min(lowest_, level * (1 - kNear));
  return number;
}

void EvenSharing::remove(int number) {
  Flow& flow = at(flows_, number);
  const int group = at(group_, number);
  if (group < links()) lowest_ = std::min(lowest_, at(level_, group) * (1 - kNear));
  const std::int64_t had = rate(number);
  leave_group(number);
  for (int share = flow.first; share < flow.first + flow.count; ++share) {
    const auto [used_link, place, crossed] = shares_[share];
    at(links_, used_link).free += had;
    std::vector<User>& users = at(users_, used_link);
    at(users, place) = users.back();
    shares_[at(users, place).share].place = place;
    users.pop_back();
    if (!users.empty()) touched_.push_back(used_link);
  }
  shares_.give_back(flow.first, flow.count);
  flow.count = 0;
  spare_flows_.push_back(number);
}

bool EvenSharing::settle() {
  changed_.clear();
  any_open_ = false;
  if (!touched_.empty()) {
    gather();
    fill();
    for (int link : gathered_) at(links_, link).gathered = false;
    touched_.clear();
  }
  lowest_ = kHighest;
  return any_open_;
}

// Opens the flows that have come, all groups on touched links whose level may change, those that share links with them, and so on.
void EvenSharing::gather() {
  gathered_.clear();
  for (int link : touched_) reach(link);
  for (std::size_t next = 0; next < gathered_.size(); ++next) open_groups_on(gathered_[next]);
}

void EvenSharing::reach(int number) {
  Link& link = at(links_, number);
  if (link.gathered) return;
  link.gathered = true;
  link.open += link.fresh;
  gathered_.push_back(number);
}

void EvenSharing::open_groups_on(int link) {
  const double* const level = level_.data();
  // A full link has no higher level than that of the group of the link, unless rates of 1 are more than it has.
  if (level[link] >= 2 && level[link] * (1 + kNear) < lowest_ && at(links_, link).open == 0) return;
  for (const double lowest = lowest_; const Crossing& crossing : at(crossings_, link)) {
    if (level[crossing.group] < lowest) continue;
    if (at(at(groups_, crossing.group).crossed, crossing.crossed).flows > 0) open(crossing.group);
  }
  // Levels are rounded, but a group is opened as a whole.
  if (at(links_, link).open == 0) return;
  any_open_ = true;
  if (at(level_, link) != kOpen) open(link);
}

void EvenSharing::open(int number) {
  const Group& group = at(groups_, number);
  at(level_, number) = kOpen;
  for (const Crossed& crossed : group.crossed) {
    if (crossed.flows == 0) continue;
    Link& link = at(links_, crossed.link);
    link.free += group.rate * crossed.flows;
    link.open += crossed.flows;
    reach(crossed.link);
  }
}

void EvenSharing::fill() {
  bottlenecks_.clear();
  for (int number : gathered_) {
    const Link& link = at(links_, number);
    if (link.open != 0) bottlenecks_.add(level_at(real(link.free), real(link.open)), number);
  }
  bottlenecks_.sort();
  while (!bottlenecks_.empty()) {
    const auto [level, number] = bottlenecks_.take();
    const Link& link = at(links_, number);
    if (link.open == 0) continue;
    // Flows that have been fixed elsewhere since leave more to the others.
    const double now = level_at(real(link.free), real(link.open));
    if (now > level) {
      bottlenecks_.put_back(now, number);
    } else {
      fix(number, now);
    }
  }
}

void EvenSharing::fix(int number, double level) {
  const Link& link = at(links_, number);
  Group& group = at(groups_, number);
  const std::int64_t rate = std::max<std::int64_t>(1, link.free / link.open);
  const std::size_t stayed = group.flows.size();
  if (link.open != count_of(group.flows)) take_newcomers(number);
  for (std::size_t place = rate == group.rate ? stayed : 0; place < group.flows.size(); ++place)
    changed_.push_back({group.flows[place], rate});
  group.rate = rate;
  at(level_, number) = level;
  for (const Crossed& crossed : group.crossed) {
    Link& other = at(links_, crossed.link);
    other.free -= rate * crossed.flows;
    other.open -= crossed.flows;
  }
}

void EvenSharing::take_newcomers(int link) {
  Group& group = at(groups_, link);
  if (group.gaps > count_of(group.crossed) / 2 + kFewGaps) close_gaps(link);
  for (int place = 0; place < count_of(group.crossed); ++place) at(slot_, at(group.crossed, place).link) = place;
  for (const User& user : at(users_, link)) {
    if (at(group_, user.flow) == link || !is_open(user.flow)) continue;
    leave_group(user.flow);
    join_group(user.flow, link);
  }
  for (const Crossed& crossed : group.crossed) at(slot_, crossed.link) = kNotCrossed;
}

void EvenSharing::leave_group(int number) {
  const Flow& flow = at(flows_, number);
  if (at(group_, number) == links()) {
    for (int share = flow.first; share < flow.first + flow.count; ++share) --at(links_, shares_[share].link).fresh;
    return;
  }
  const int left = at(group_, number);
  Group& group = at(groups_, left);
  at(group.flows, flow.place) = group.flows.back();
  at(flows_, at(group.flows, flow.place)).place = flow.place;
  group.flows.pop_back();
  for (int share = flow.first; share < flow.first + flow.count; ++share) {
    if (--at(group.crossed, shares_[share].crossed).flows == 0) ++group.gaps;
  }
  if (group.flows.empty()) at(level_, left) = kOpen;
}

void EvenSharing::join_group(int number, int to) {
  Group& group = at(groups_, to);
  Flow& flow = at(flows_, number);
  at(group_, number) = to;
  flow.place = count_of(group.flows);
  group.flows.push_back(number);
  for (int share = flow.first; share < flow.first + flow.count; ++share) {
    const int link = shares_[share].link;
    int& slot = at(slot_, link);
    if (slot == kNotCrossed) {
      slot = count_of(group.crossed);
      group.crossed.push_back({link, 0, count_of(at(crossings_, link))});
      at(crossings_, link).push_back({to, slot});
      ++group.gaps;
    }
    shares_[share].crossed = slot;
    if (++at(group.crossed, slot).flows == 1) --group.gaps;
  }
}

void EvenSharing::close_gaps(int number) {
  Group& group = at(groups_, number);
  int filled = 0;
  for (const Crossed& crossed : group.crossed) {
    std::vector<Crossing>& crossings = at(crossings_, crossed.link);
    if (crossed.flows > 0) {
      at(crossings, crossed.place).crossed = filled;
      at(slot_, crossed.link) = filled;
      at(group.crossed, filled++) = crossed;
    } else {
      const Crossing moved = at(crossings, crossed.place) = crossings.back();
      at(at(groups_, moved.group).crossed, moved.crossed).place = crossed.place;
      crossings.pop_back();
    }
  }
  group.crossed.resize(index(filled));
  group.gaps = 0;
  for (int number_of : group.flows) {
    const Flow& flow = at(flows_, number_of);
    for (int share = flow.first; share < flow.first + flow.count; ++share) shares_[share].crossed = at(slot_, shares_[share].link);
  }
}

}  // namespace astra::flow
