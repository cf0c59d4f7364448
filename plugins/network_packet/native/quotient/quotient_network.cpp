#include "quotient/quotient_network.hpp"

#include <algorithm>
#include <utility>

#include "quotient/alike_routes.hpp"

namespace astra::packet {

QuotientNetwork::QuotientNetwork(std::shared_ptr<const Shape> shape, Automorphisms automorphisms, VnetChoice vnet_choice,
                                 std::int64_t clock_ps, Make make)
    : shape_(std::move(shape)),
      automorphisms_(std::move(automorphisms)),
      vnet_choice_(std::move(vnet_choice)),
      clock_ps_(clock_ps),
      make_(std::move(make)),
      domain_(shape_),
      batch_(*shape_, automorphisms_) {}

void QuotientNetwork::inject(std::int64_t time_ps, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) {
  if (next_) return next_->inject(time_ps, number, source, destination, bytes, queue);
  check_ends(source, destination, automorphisms_.npus());
  const Cycle cycle = (time_ps + clock_ps_ - 1) / clock_ps_;
  later_[std::max(cycle, now_)].push_back({number, bytes, source, destination, queue, vnet_choice_.vnet_of(source, destination, queue)});
}

bool QuotientNetwork::advance(std::int64_t until) {
  if (!next_) {
    const std::optional<bool> any = parting_ ? std::nullopt : advance_quotient(until);
    if (any) return *any;
    expand();
    if (!arrived.empty()) return true;  // they came before it parted
  }
  while (parting_->catches_up) parting_->catches_up = next_->advance(parting_->known * clock_ps_);
  const bool any = next_->advance(until);
  time = next_->time;
  std::swap(arrived, next_->arrived);
  return any;
}

std::optional<bool> QuotientNetwork::advance_quotient(std::int64_t until) {
  arrived.clear();
  if (!later_.empty() && later_.begin()->first <= now_ && !send_all(now_)) return std::nullopt;
  while (true) {
    const Cycle next = next_cycle();
    if (next == kNever && until == kNoLimit && domain_.outstanding() > 0) {
      part(std::vector<bool>(shape_->sizes.size()), now_);  // a deadlock, which the whole network reports
      return std::nullopt;
    }
    if (next == kNever || next > until / clock_ps_) return false;
    interruptible_.step(next);
    if (domain_.next() == next && !run(next)) return std::nullopt;
    now_ = next;
    const bool alike = later_.empty() || later_.begin()->first != next || send_all(next);
    if (!arrived.empty()) {
      time = next * clock_ps_;
      std::sort(arrived.begin(), arrived.end());
    }
    if (!alike) return std::nullopt;
    if (!arrived.empty()) return true;
  }
}

bool QuotientNetwork::run(Cycle cycle) {
  keys_.clear();
  try {
    domain_.run(cycle, cycle, keys_);
  } catch (const UnlikeChoice& choice) {
    std::vector<bool> collapsed = automorphisms_.collapsed();
    at(collapsed, choice.dimension) = false;
    part(std::move(collapsed), cycle - 1);
    return false;
  }
  for (std::uint64_t key : keys_) {
    std::vector<std::uint64_t>& numbers = under_way_[key].numbers;
    arrived.insert(arrived.end(), numbers.begin(), numbers.end());
    numbers.clear();
    free_.push_back(key);
  }
  return true;
}

bool QuotientNetwork::are_alike(const std::vector<Sent>& messages) {
  if (batch_.take(messages)) return true;
  if (!std::exchange(goes_by_distance_, false) || !automorphisms_.use_exclusive_or()) return false;
  return batch_.take(messages);
}

bool QuotientNetwork::send_all(Cycle cycle) {
  const std::vector<Sent>& messages = later_.begin()->second;
  const bool awake = shape_->rules.same_cycle();
  // Messages from outside find interfaces awake or not, which is looked up in the whole network.
  if ((awake && !wake_senders_) || !are_alike(messages)) {
    part(awake ? std::vector<bool>(shape_->sizes.size()) : common_dimensions(messages), cycle);
    return false;
  }
  domain_.catch_up(cycle);
  for (std::size_t i = 0; i < batch_.messages().size(); ++i) {
    const SymmetricSends::Message& m = batch_.messages()[i];
    goes_by_distance_ = goes_by_distance_ && automorphisms_.is_common(m.address);
    std::uint64_t key = under_way_.size();
    if (free_.empty()) {
      under_way_.emplace_back();
    } else {
      key = free_.back();
      free_.pop_back();
    }
    UnderWay& result = under_way_[key];
    result.noted = noted_.size();
    for (int place = 0; place < automorphisms_.count(); ++place) result.numbers.push_back(batch_.number(i, place));
    noted_.push_back({cycle, m.bytes, m.node, m.address, m.queue});
    domain_.inject(cycle, m.node, m.address, m.vnet, m.bytes, key, awake);
  }
  later_.erase(later_.begin());
  return true;
}

Cycle QuotientNetwork::next_cycle() const {
  const Cycle sends = later_.empty() ? kNever : later_.begin()->first;
  return std::min(sends, domain_.next());
}

std::int64_t QuotientNetwork::next_event() const {
  if (next_) return next_->next_event();
  const Cycle next = next_cycle();
  return next == kNever ? kNoLimit : next * clock_ps_;
}

Statistics QuotientNetwork::statistics(std::size_t index) const {
  if (next_) return next_->statistics(index);
  Statistics figures = domain_.statistics();
  for (int i = 0; i < Statistics::kTotals; ++i) at(figures.counters, i) *= automorphisms_.count();
  return figures;
}

void QuotientNetwork::wake_senders() {
  wake_senders_ = true;
  if (next_) next_->wake_senders();
}

void QuotientNetwork::watch(Watcher watcher) {
  watcher_ = watcher;
  interruptible_.watch(watcher);
  if (next_) next_->watch(std::move(watcher));
}

const Automorphisms* QuotientNetwork::automorphisms() const {
  if (!next_) return &automorphisms_;
  const auto* const collapsed = dynamic_cast<const QuotientNetwork*>(next_.get());
  return collapsed == nullptr ? nullptr : collapsed->automorphisms();
}

void QuotientNetwork::part(std::vector<bool> collapsed, Cycle known) { parting_ = Parting{std::move(collapsed), known, known >= 0}; }

std::vector<bool> QuotientNetwork::common_dimensions(const std::vector<Sent>& messages) const {
  std::vector<bool> common = automorphisms_.collapsed();
  for (int d = 0; d < count_of(common); ++d) {
    if (!at(common, d)) continue;
    auto alike_in_d = [&](const Sent& m) {
      return route_is_alike(*shape_, automorphisms_.node(m.source), automorphisms_.address(m.source, m.destination), d);
    };
    Automorphisms along = automorphisms_.along(d);
    const bool saved = are_kept(messages, along) || (along.use_exclusive_or() && are_kept(messages, along));
    at(common, d) = saved && std::all_of(messages.begin(), messages.end(), alike_in_d);
  }
  // If nothing of this is the reason, it is the order of messages, or their injection ports.
  return common == automorphisms_.collapsed() ? std::vector<bool>(common.size()) : common;
}

// Messages that have arrived need no number, since they are not delivered again.
void QuotientNetwork::expand() {
  const std::shared_ptr<MessageNetwork> next = make_(parting_->still_collapsed);
  std::vector<const UnderWay*> numbered(noted_.size());
  for (const UnderWay& message : under_way_) {
    if (!message.numbers.empty()) numbered[message.noted] = &message;
  }
  for (std::size_t i = 0; i < noted_.size(); ++i) {
    const Noted& m = noted_[i];
    for (int place = 0; place < automorphisms_.count(); ++place) {
      const int source = automorphisms_.npu(m.node, place);
      const std::uint64_t number = numbered[i] == nullptr ? 0 : numbered[i]->numbers[index(place)];
      next->inject(m.cycle * clock_ps_, number, source, automorphisms_.destination(source, m.address), m.bytes, m.queue);
    }
  }
  for (const auto& [cycle, messages] : later_) {
    for (const Sent& m : messages) next->inject(cycle * clock_ps_, m.number, m.source, m.destination, m.bytes, m.queue);
  }
  next->watch(watcher_);
  if (wake_senders_) next->wake_senders();
  later_.clear();
  noted_ = {};
  under_way_ = {};
  next_ = next;
}

}  // namespace astra::packet
