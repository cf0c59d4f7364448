#include "transport.hpp"

#include <algorithm>

#include "errors.hpp"

namespace astra::engine {

void Transport::set_table(const NetworkTable& table) {
  if (!table.is_whole(network_)) invalid("the network function table lacks functions");
  table_.emplace(table);
  reports_completion_ = table.reports_completion();
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

void Transport::prepare(const HandledMessage& message) {
  const HandledId id = handled_.add(message);
  const Time end = processors_.handle(message.source, events_.now(), message.bytes, false);
  if (end == events_.now()) return on_departure(id);
  events_.push(end, message.source, Departure{id});
  carry(message.destination, message.bytes);
}

void Transport::on_departure(HandledId id) {
  const HandledMessage& message = handled_[id];
  hand_over(message.source, message.destination, message.bytes, Landing{id}, message.flow, message.queue, message.delay);
  if (message.sent) await_sent(message.source, message.destination, message.bytes, *message.sent);
}

std::optional<EventPayload> Transport::on_landing(HandledId id) {
  const HandledMessage& message = handled_[id];
  const Time end = processors_.handle(message.destination, events_.now(), message.bytes, true);
  if (end == events_.now()) return on_reception(id);
  events_.push(end, message.destination, Reception{id});
  carry(message.destination, message.bytes);
  return std::nullopt;
}

EventPayload Transport::on_reception(HandledId id) {
  const EventPayload arrival = handled_[id].arrival;
  handled_.release(id);
  return arrival;
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

void Transport::await_sent(NpuId source, NpuId destination, std::int64_t bytes, const EventPayload& sent) {
  if (Causes* causes = events_.causes()) causes->send(sent_cause(messages_), destination, bytes);
  const CausalKeyId causal_key = events_.next_causal_key();
  events_.causal_keys().hold(causal_key);
  unconfirmed_.add(messages_, source, causal_key, sent);
}

void Transport::carry(NpuId destination, std::int64_t bytes) {
  if (Causes* causes = events_.causes()) causes->carry(destination, bytes);
}

void Transport::deliver(Time time, std::span<const astra_delivery> deliveries) {
  for (const astra_delivery& reported : deliveries) {
    if (reported.kind == ASTRA_SENT) {
      // No operation waits for this if the message belongs to a collective.
      if (const auto outcome = unconfirmed_.take(reported.number)) deliver_outcome(time, *outcome, sent_cause(reported.number));
      continue;
    }
    const auto outcome = under_way_.take(reported.number);
    if (!outcome) throw NotUnderWay(reported.number);
    deliver_outcome(time, *outcome, reported.number);
  }
}

void Transport::deliver_outcome(Time time, const Outcome& outcome, std::uint64_t cause) {
  if (Causes* causes = events_.causes()) causes->deliver(cause);
  CausalKeys& causal_keys = events_.causal_keys();
  const bool is_earlier = time == latest_at_ && causal_keys.less(outcome.causal_key, latest_);
  if (!is_earlier) causal_keys.replace(latest_, outcome.causal_key);
  latest_at_ = time;
  if (const auto* arrival = std::get_if<MessageArrival>(&outcome.what)) {
    events_.push_with(time, outcome.source, *arrival, latest_);
  } else {
    events_.push_with(time, outcome.source, outcome.what, latest_);
  }
  causal_keys.drop(outcome.causal_key);
}

Time Transport::find_delay(NpuId source, NpuId destination, std::int64_t bytes) {
  if (table_) {
    const Time delay = table_->delay(source, destination, bytes);
    if (delay >= 0) return delay;
    host_.delay(source, destination, bytes);  // raises the network's own error in Python
    table_->fail("delay");
  }
  auto& known = delays_[pair_key(source, destination)];
  auto place = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.first == bytes; });
  if (place == known.end()) place = known.emplace(known.end(), bytes, host_.delay(source, destination, bytes));
  if (source >= last_delays_.size()) last_delays_.resize(source + 1);
  last_delays_[source] = {bytes, destination, place->second};
  return place->second;
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
