#include "transport.hpp"

#include "errors.hpp"

namespace astra::engine {

void Transport::set_table(const NetworkTable& table) {
  if (!table.is_whole(network_)) invalid("the network function table lacks functions");
  table_.emplace(table);
  tells_sent_ = table.tells_sent();
}

void Transport::set_traffic_classes(std::int32_t without_queue, std::vector<std::int32_t> of_queues) {
  class_without_queue_ = without_queue;
  class_of_queue_ = std::move(of_queues);
}

std::int32_t Transport::class_of(std::int32_t queue) const {
  if (queue < 0) return class_without_queue_;
  const auto place = static_cast<std::size_t>(queue);
  return place < class_of_queue_.size() ? class_of_queue_[place] : -1;
}

void Transport::await_sent(NpuId source, NpuId destination, std::int64_t bytes, const Happening& sent) {
  if (Causes* causes = events_.causes()) causes->send(sent_cause(messages_), destination, bytes);
  const HistoryId history = events_.next_history();
  events_.histories().hold(history);
  unconfirmed_.add(messages_, source, history, sent);
}

void Transport::exchange() {
  if (network_ == NetworkKind::delays) return;
  if (!outbox_.empty()) {
    inject();
    outbox_.clear();
    quiet_until_ = -1;
  }
  Time since = events_.now();  // deliveries come in order of time
  while (quiet_until_ != ASTRA_NEVER) {
    const Time until = events_.next_time();
    if (until <= quiet_until_) return;
    Time time = 0;
    const std::span<const astra_delivery> deliveries = advance(since, until, time);
    if (deliveries.empty()) {
      quiet_until_ = until;
      return;
    }
    since = time;
    deliver(time, deliveries);
  }
}

void Transport::deliver(Time time, std::span<const astra_delivery> deliveries) {
  for (const astra_delivery& told : deliveries) {
    if (told.kind == ASTRA_SENT) {
      // Of a message that belongs to a collective nobody waits for this.
      if (const auto outcome = unconfirmed_.take(told.number)) happen(time, *outcome, sent_cause(told.number));
      continue;
    }
    const auto outcome = under_way_.take(told.number);
    if (!outcome) throw NotUnderWay(told.number);
    happen(time, *outcome, told.number);
  }
}

void Transport::happen(Time time, const Outcome& outcome, std::uint64_t cause) {
  if (Causes* causes = events_.causes()) causes->deliver(cause);
  Histories& histories = events_.histories();
  const bool is_earlier = time == latest_at_ && histories.less(outcome.history, latest_);
  if (!is_earlier) histories.replace(latest_, outcome.history);
  latest_at_ = time;
  if (const auto* arrival = std::get_if<MessageArrival>(&outcome.what)) {
    events_.push_with(time, outcome.source, *arrival, latest_);
  } else {
    events_.push_with(time, outcome.source, outcome.what, latest_);
  }
  histories.drop(outcome.history);
}

Time Transport::delay_of(NpuId source, NpuId destination, std::int64_t bytes) {
  if (table_) {
    const Time delay = table_->delay(source, destination, bytes);
    if (delay >= 0) return delay;
    host_.delay(source, destination, bytes);  // where the network says in Python what is wrong
    table_->fail("delay");
  }
  auto& known = delays_[pair_key(source, destination)];
  for (const auto& [size, delay] : known) {
    if (size == bytes) return delay;
  }
  const Time delay = host_.delay(source, destination, bytes);
  known.emplace_back(bytes, delay);
  return delay;
}

void Transport::inject() {
  if (table_) return table_->inject(events_.now(), outbox_.messages());
  host_.inject(events_.now(), outbox_.messages());
}

std::span<const astra_delivery> Transport::advance(Time since, Time until, Time& time) {
  if (table_) return table_->advance(since, until, time, delivered_);
  delivered_.clear();
  if (!host_.advance(since, until, time, delivered_)) return {};
  return delivered_;
}

}  // namespace astra::engine
