#include "player.hpp"

#include <algorithm>
#include <utility>

namespace astra::roce {

void Player::keep(std::shared_ptr<const Period> period) {
  if (known_.size() == kMostPeriods) known_.erase(known_.begin());
  known_.push_back(std::move(period));
}

template <class Holds>
bool Player::turn_to(Holds holds) {
  const auto steps = static_cast<std::ptrdiff_t>(place_);
  const auto pending = static_cast<std::ptrdiff_t>(messages_.size() - waiting_.size());
  const auto same = [](const auto& one, const auto& other, std::ptrdiff_t count) {
    return std::ssize(one) >= count && std::equal(one.begin(), one.begin() + count, other.begin());
  };
  for (auto each = known_.rbegin(); each != known_.rend(); ++each) {
    const Period& other = **each;
    if (period_ && (!same(other.steps, period_->steps, steps) || !same(other.pending, period_->pending, pending))) continue;
    if (other.waiting != waiting_ || !holds(other)) continue;
    period_ = *each;
    return true;
  }
  return false;
}

bool Player::begin(Tick now, std::vector<PendingSend> pending, std::vector<Start> waiting) {
  period_.reset();
  place_ = 0;
  began_ = now_ = now;
  upto_ = -1;
  waiting_ = std::move(pending);
  messages_ = std::move(waiting);
  plays_ = turn_to([](const Period&) { return true; });
  return plays_;
}

bool Player::may_post(const Period& period, const PendingSend& pending) const {
  if (place_ == period.steps.size()) return false;
  const Step& step = period.steps[place_];
  if (step.kind != Step::Kind::post || step.time != (upto_ < 0 ? Step::kNothing : upto_ - began_)) return false;
  return period.pending[messages_.size() - waiting_.size()] == pending;
}

bool Player::post(const PendingSend& pending, const Start& start) {
  if (!may_post(*period_, pending) && !turn_to([&](const Period& each) { return may_post(each, pending); })) return false;
  ++place_;
  messages_.push_back(start);
  return true;
}

// Whether the next step may be an answer to `advance`.
bool Player::may_advance(const Period& period, Tick until) const {
  if (place_ == period.steps.size()) return true;
  const Step& step = period.steps[place_];
  return step.kind == Step::Kind::delivery || until - began_ <= step.time;
}

Player::Answer Player::advance(Tick until) {
  if (!may_advance(*period_, until) && !turn_to([&](const Period& each) { return may_advance(each, until); })) return Answer::differs;
  const bool at_end = place_ == period_->steps.size();
  const Tick time = at_end ? period_->length : period_->steps[place_].time;
  const bool is_post = !at_end && period_->steps[place_].kind == Step::Kind::post;
  if (is_post || until - began_ < time) {
    upto_ = std::max(upto_, until);
    return Answer::waits;
  }
  if (at_end) return Answer::ends;
  upto_ = -1;
  now_ = began_ + time;
  ++place_;
  return Answer::delivers;
}

std::vector<Start> Player::waiting() const {
  std::vector<Start> waiting;
  for (const Left& each : period_->left) {
    waiting.push_back(messages_[each.message]);
    waiting.back().rounds = each.rounds;
  }
  return waiting;
}

std::uint64_t Player::pass_timers(Tick upto) {
  std::uint64_t passed = 0;
  for (; !timers_.empty() && timers_.top() <= upto; timers_.pop()) ++passed;
  return passed;
}

Played Player::leave() {
  const std::size_t waiting = waiting_.size();
  Played played{began_, {}, std::move(messages_), waiting, {}, upto_};
  for (; !timers_.empty(); timers_.pop()) played.timers.push_back(timers_.top());
  if (period_) played.steps.assign(period_->steps.begin(), period_->steps.begin() + static_cast<std::ptrdiff_t>(place_));
  period_.reset();
  plays_ = false;
  return played;
}

}  // namespace astra::roce
