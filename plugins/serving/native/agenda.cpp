#include "agenda.hpp"

namespace astra::serving {

void Agenda::push(double at, Kind kind, std::int64_t what, std::int32_t stamp) {
  going_on_ += kind < Kind::kStarted;
  queue_.push({at, kind, ++pushed_, what, stamp});
}

Event Agenda::pop() {
  const Event event = queue_.top();
  queue_.pop();
  going_on_ -= event.kind < Kind::kStarted;
  now_ = event.at;
  ++events_;
  return event;
}

void Agenda::add_replica(std::vector<Instance*> instances, std::shared_ptr<IterationTime> time, bool jumps) {
  replica_of_.resize(static_cast<std::size_t>(instances.back()->number()) + 1, replicas_.size());
  replicas_.emplace_back(std::move(instances), std::move(time), jumps);
  is_woken_.push_back(0);
}

bool Agenda::may_begin(std::size_t number) {
  is_woken_[number] = 0;
  return !replicas_[number].is_busy();
}

void Agenda::ends(std::size_t number, std::optional<double> end) {
  if (end) push(*end, Kind::kEnd, static_cast<std::int64_t>(number), replicas_[number].stamp);
}

void Agenda::wake(std::size_t number) {
  if (is_woken_[number]) return;
  is_woken_[number] = 1;
  push(now_, Kind::kBegin, static_cast<std::int64_t>(number));
}

void Agenda::wake(const Instance& instance) {
  if (!replicas_[number_of(instance)].is_busy()) wake(number_of(instance));
}

void Agenda::got(const Instance& instance) {
  const std::size_t number = number_of(instance);
  if (replicas_[number].is_busy()) {
    ends(number, replicas_[number].interrupt(instance, now_));
  } else {
    wake(number);
  }
}

void Agenda::cut(const Instance& instance) { ends(number_of(instance), replicas_[number_of(instance)].cut(now_)); }

}  // namespace astra::serving
