#include "network/network.hpp"

#include <algorithm>
#include <map>

namespace astra::packet {

Network::Network(int npus, int vnets, VnetChoice vnet_choice, std::int64_t clock_ps, bool representatives)
    : npus_(npus),
      vnets_(vnets),
      vnet_choice_(std::move(vnet_choice)),
      clock_ps_(clock_ps),
      representatives_(representatives),
      places_(index(npus) * index(vnets)) {
  if (vnet_choice_.end() > vnets) {
    throw std::invalid_argument("expected messages in " + std::to_string(vnets) + " virtual networks, got one in number " +
                                std::to_string(vnet_choice_.end() - 1));
  }
}

void Network::add_domain(std::shared_ptr<const Shape> shape, const std::vector<int>& npus) {
  const int number = count_of(instances_);
  for (const InjectionPortSpec& injection_port : shape->injection_port) {
    const int npu = npus.at(index(injection_port.node));
    places_.at(index(npu * vnets_ + injection_port.vnet)) = {number, injection_port.node};
  }
  same_cycle_ = shape->rules.same_cycle();
  int group = 0;
  while (group < count_of(groups_) && (!representatives_ || &at(groups_, group).domain->shape() != shape.get())) ++group;
  if (group == count_of(groups_)) {
    groups_.emplace_back();
    groups_.back().domain = std::make_unique<Domain>(std::move(shape));
  }
  at(groups_, group).members.push_back(number);
  instances_.push_back({group, std::vector<std::int64_t>(Statistics(at(groups_, group).domain->shape().channels()).counters.size())});
}

Statistics Network::statistics(std::size_t index) const {
  Statistics sum = group_of(index).domain->statistics();
  for (std::size_t i = 0; i < sum.counters.size(); ++i) sum.counters[i] += instances_[index].earlier[i];
  return sum;
}

int Network::vnet_of(int source, int destination, int queue) const {
  const int vnet = vnet_choice_.vnet_of(source, destination, queue);
  return vnet == VnetChoice::kNearest ? nearest_vnet(source, destination) : vnet;
}

int Network::nearest_vnet(int source, int destination) const {
  int best = -1;
  int fewest = 0;
  for (int vnet = 0; vnet < vnets_; ++vnet) {
    const Place& from = place(source, vnet);
    const Place& to = place(destination, vnet);
    if (from.instance < 0 || from.instance != to.instance) continue;
    const int hops = hops_between(shape(index(from.instance)), from.node, to.node, vnet);
    if (hops >= 0 && (best < 0 || hops < fewest)) {
      best = vnet;
      fewest = hops;
    }
  }
  return best;
}

void Network::inject(std::int64_t time_ps, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) {
  check_ends(source, destination, npus_);
  const std::string what = "a message from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination);
  const int vnet = vnet_of(source, destination, queue);
  const std::string in_queue = queue >= 0 ? " in queue " + std::to_string(queue) : "";
  if (vnet < 0) throw RouteError(what + in_queue + " has no route through the network");
  const Place& from = place(source, vnet);
  if (from.instance < 0 || from.instance != place(destination, vnet).instance) {
    throw RouteError(what + in_queue + " has no route: virtual network " + std::to_string(vnet) + " does not join them");
  }
  const Cycle cycle = (time_ps + clock_ps_ - 1) / clock_ps_;
  later_.push({std::max(cycle, now_), injected_++, number, bytes, source, destination, vnet});
}

bool Network::awake(int npu, Cycle cycle) {
  if (!same_cycle_ || wake_senders_) return same_cycle_;
  for (int vnet = 0; vnet < vnets_; ++vnet) {
    const Place& other = place(npu, vnet);
    if (other.instance < 0) continue;
    Domain& domain = *group_of(index(other.instance)).domain;
    domain.catch_up(cycle);
    const Shape::InjectionPorts& injection_ports = domain.shape().injection_ports_of(other.node, vnet);
    for (int injection_port = injection_ports.first; injection_port < injection_ports.end(); ++injection_port) {
      if (domain.awake(injection_port, cycle)) return true;
    }
  }
  return false;
}

void Network::send_all(Cycle cycle) {
  struct Sent {
    int source;
    int destination;
    int vnet;
    bool awake;
    std::int64_t bytes;
    bool operator==(const Sent&) const = default;
  };
  struct Batch {
    std::vector<Sent> sent;
    std::vector<std::uint64_t> numbers;
  };
  std::map<int, Batch> batches;  // by instance
  while (!later_.empty() && later_.top().cycle <= cycle) {
    const Later& m = later_.top();
    const Place& from = place(m.source, m.vnet);
    Batch& batch = batches[from.instance];
    batch.sent.push_back({from.node, place(m.destination, m.vnet).node, m.vnet, awake(m.source, cycle), m.bytes});
    batch.numbers.push_back(m.number);
    later_.pop();
  }
  std::vector<int> concerned;
  for (const auto& [instance, ignored] : batches) concerned.push_back(at(instances_, instance).group);
  std::sort(concerned.begin(), concerned.end());
  concerned.erase(std::unique(concerned.begin(), concerned.end()), concerned.end());
  for (int group : concerned) {
    at(groups_, group).domain->catch_up(cycle);
    merge(group, cycle);
  }
  static const Batch nothing;
  for (int group : concerned) {
    auto batch_of = [&](int instance) -> const Batch& {
      const auto entry = batches.find(instance);
      return entry == batches.end() ? nothing : entry->second;
    };
    while (!at(groups_, group).members.empty()) {
      std::vector<int> same;
      std::vector<int> others;
      const Batch& first = batch_of(at(groups_, group).members.front());
      for (int member : at(groups_, group).members) (batch_of(member).sent == first.sent ? same : others).push_back(member);
      const int rest = others.empty() ? -1 : split(group, others);
      Group& mine = at(groups_, group);
      for (std::size_t i = 0; i < first.sent.size(); ++i) {
        std::uint64_t key = mine.numbers.size();
        if (mine.free.empty()) {
          mine.numbers.emplace_back();
        } else {
          key = mine.free.back();
          mine.free.pop_back();
        }
        for (int member : mine.members) mine.numbers[key].push_back(batch_of(member).numbers[i]);
        const Sent& m = first.sent[i];
        mine.domain->inject(cycle, m.source, m.destination, m.vnet, m.bytes, key, m.awake);
      }
      if (rest < 0) break;
      group = rest;
    }
  }
  for (Group& group : groups_) group.look();
}

int Network::split(int from, const std::vector<int>& members) {
  const int number = count_of(groups_);
  groups_.emplace_back();
  Group& old = at(groups_, from);
  Group& result = groups_.back();
  result.domain = std::make_unique<Domain>(*old.domain);
  result.free = old.free;
  result.numbers.resize(old.numbers.size());
  std::vector<std::vector<std::uint64_t>> saved(old.numbers.size());
  std::vector<int> staying;
  for (std::size_t place = 0; place < old.members.size(); ++place) {
    const int member = old.members[place];
    const bool leaves = std::find(members.begin(), members.end(), member) != members.end();
    (leaves ? result.members : staying).push_back(member);
    for (std::size_t key = 0; key < old.numbers.size(); ++key) {
      if (!old.numbers[key].empty()) (leaves ? result.numbers : saved)[key].push_back(old.numbers[key][place]);
    }
    if (leaves) at(instances_, member).group = number;
  }
  old.numbers = std::move(saved);
  old.members = std::move(staying);
  return number;
}

void Network::merge(int into, Cycle cycle) {
  Group& mine = at(groups_, into);
  if (!representatives_ || mine.members.empty() || !mine.domain->rests()) return;
  std::vector<std::int64_t> signature;
  for (std::size_t other = 0; other < groups_.size(); ++other) {
    Group& theirs = groups_[other];
    if (other == index(into) || theirs.members.empty() || &theirs.domain->shape() != &mine.domain->shape() || !theirs.domain->rests())
      continue;
    if (signature.empty()) signature = mine.domain->signature(cycle);
    if (theirs.domain->signature(cycle) != signature) continue;
    for (Group* group : {&mine, &theirs}) {
      const std::vector<std::int64_t> counters = group->domain->statistics().counters;
      for (int member : group->members) {
        for (std::size_t i = 0; i < counters.size(); ++i) at(instances_, member).earlier[i] += counters[i];
      }
      group->domain->clear_statistics();
    }
    for (int member : theirs.members) {
      at(instances_, member).group = into;
      mine.members.push_back(member);
    }
    theirs.members.clear();
  }
  std::sort(mine.members.begin(), mine.members.end());
}

Cycle Network::next_cycle() const {
  Cycle next = later_.empty() ? kNever : later_.top().cycle;
  for (const Group& group : groups_) next = std::min(next, group.next);
  return next;
}

bool Network::advance(std::int64_t until) {
  arrived.clear();
  if (!later_.empty() && later_.top().cycle <= now_) send_all(now_);
  while (true) {
    const Cycle next = next_cycle();
    if (next == kNever) {
      if (until == kNoLimit) report_deadlock();
      return false;
    }
    if (next > until / clock_ps_) return false;
    interruptible_.step(next);
    now_ = next;
    const Cycle last = groups_.size() > 1 ? next : std::min(until / clock_ps_, later_.empty() ? kNever : later_.top().cycle);
    for (Group& group : groups_) {
      if (group.next != next) continue;
      keys_.clear();
      now_ = group.domain->run(next, last, keys_);
      group.look();
      for (std::uint64_t key : keys_) {
        arrived.insert(arrived.end(), group.numbers[key].begin(), group.numbers[key].end());
        group.numbers[key].clear();
        group.free.push_back(key);
      }
    }
    if (!later_.empty() && later_.top().cycle == now_) send_all(now_);
    if (!arrived.empty()) {
      time = now_ * clock_ps_;
      std::sort(arrived.begin(), arrived.end());
      return true;
    }
  }
}

std::int64_t Network::next_event() const {
  const Cycle next = next_cycle();
  return next == kNever ? kNoLimit : next * clock_ps_;
}

std::int64_t Network::shared_windows() const {
  std::int64_t windows = 0;
  for (const Group& group : groups_) windows += group.members.empty() ? 0 : group.domain->shared_windows();
  return windows;
}

std::string Network::check() const {
  for (const Group& group : groups_) {
    std::string problem = group.members.empty() ? "" : group.domain->check();
    if (!problem.empty()) return problem;
  }
  return "";
}

// Nothing to report if no message is under way.
void Network::report_deadlock() const {
  std::int64_t messages = 0;
  std::vector<std::string> lines;
  for (const Group& group : groups_) {
    if (group.members.empty() || group.domain->outstanding() == 0) continue;
    messages += group.domain->outstanding() * wide(group.members.size());
    if (lines.empty()) lines = group.domain->waiting();
  }
  if (messages == 0) return;
  std::string text = "the network is deadlocked: " + std::to_string(messages) + " messages cannot arrive, and nothing moves";
  for (const std::string& line : lines) text += "\n  " + line;
  throw Deadlock(text);
}

}  // namespace astra::packet
