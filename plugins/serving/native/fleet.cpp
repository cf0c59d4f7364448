#include "fleet.hpp"

#include <algorithm>
#include <utility>

namespace astra::serving {

Fleet::Fleet(FleetOptions options, RandomStream stream) : options_(options), stream_(stream) {}

void Fleet::add_instance(Place place, const InstanceOptions& options, std::shared_ptr<Policy> policy,
                         std::shared_ptr<Speculation> speculation) {
  place.number = static_cast<Number>(instances_.size());
  KvCache cache(options.blocks, options.block_tokens, options.prefix_caching, contents_);
  std::unique_ptr<Scheduler> scheduler;
  if (policy) {
    scheduler = std::make_unique<PolicyScheduler>(std::move(policy), options.policy_name, std::move(cache), options.limits, options.drafts);
  } else {
    scheduler = std::make_unique<Scheduler>(std::move(cache), options.limits, options.by_priority, options.drafts);
  }
  scheduler->receives = place.role == Role::kDecode;
  scheduler->sends = place.role == Role::kPrefill;
  instances_.push_back(std::make_unique<Instance>(place, std::move(scheduler), std::move(speculation)));
}

void Fleet::add_replica(std::size_t count, std::shared_ptr<IterationTime> time, bool jumps) {
  std::vector<Instance*> ranks;
  for (auto each = instances_.end() - static_cast<std::ptrdiff_t>(count); each != instances_.end(); ++each) ranks.push_back(each->get());
  agenda_.add_replica(std::move(ranks), std::move(time), jumps);
}

void Fleet::add_requests(std::vector<Sequence> requests, std::vector<std::int64_t> contents) {
  sequences_ = std::move(requests);
  contents_ = std::move(contents);
}

void Fleet::open(const std::vector<Number>& numbers) {
  for (ServedModel& each : models_) {
    each.takers.clear();
    each.receivers.clear();
  }
  for (const Number number : numbers) {
    Instance* const instance = instances_[static_cast<std::size_t>(number)].get();
    ServedModel& model = model_of(*instance);
    (instance->place.role == Role::kDecode ? model.receivers : model.takers).push_back(instance);
  }
}

const std::vector<Weighted>& Fleet::gaps(Number model) {
  if (model >= 0 || models_.size() == 1) return models_[static_cast<std::size_t>(std::max(model, 0))].gaps.sorted();
  all_gaps_ = {};
  for (ServedModel& each : models_) {
    for (const auto& [value, count] : each.gaps.sorted()) all_gaps_.add(value, count);
  }
  return all_gaps_.sorted();
}

std::int64_t Fleet::advance(std::int64_t most) {
  if (!has_started_) start();
  std::int64_t done = 0;
  while (done < most) {
    if (hand_over_) hand_over_->advance();
    if (agenda_.is_empty()) break;
    happen(agenda_.pop());
    ++done;
  }
  return done;
}

void Fleet::happen(const Event& event) {
  const auto what = static_cast<std::size_t>(event.what);
  switch (event.kind) {
    case Kind::kArrive:
      return arrive(event.what);
    case Kind::kEnqueue:
      return enqueue(sequences_[what]);
    case Kind::kEnd:
      return end(what, event.stamp);
    case Kind::kTransferred:
      return hand_over_->transferred(sequences_[what]);
    case Kind::kBegin:
      return begin(what);
    case Kind::kStarted:
    case Kind::kScale:
      return decide(static_cast<Number>(event.what));
  }
}

void Fleet::start() {
  has_started_ = true;
  if (scaling_) agenda_.push(scaling_->period_s, Kind::kScale, -1);
  for (std::int64_t count = std::max<std::int64_t>(1, options_.concurrency); count; --count) next_arrival();
}

// Tell the autoscaler that a unit has started, or let it decide, while something else is to happen.
void Fleet::decide(Number started) {
  if (started < 0 && !agenda_.next()) return;
  std::vector<InstanceLoad> loads;
  for (const auto& each : instances_) {
    const Scheduler& scheduler = each->scheduler;
    loads.push_back({static_cast<std::int64_t>(scheduler.waiting.size()), scheduler.cache.used_blocks(), each->requests() + each->coming});
  }
  const auto [starting, takers] = scaling_->decide(started, agenda_.now(), loads, scaling_->pools);
  open(takers);
  if (started >= 0) return;
  for (PoolPeriod& each : scaling_->pools) each = {};
  for (const Number unit : starting) agenda_.push(agenda_.now() + scaling_->cold_start_s, Kind::kStarted, unit);
  agenda_.push(agenda_.now() + scaling_->period_s, Kind::kScale, -1);
}

void Fleet::next_arrival() {
  if (asked_ == static_cast<std::int64_t>(sequences_.size())) return;
  Sequence& sequence = sequences_[static_cast<std::size_t>(asked_)];
  if (options_.concurrency) sequence.arrival = agenda_.now();
  agenda_.push(sequence.arrival, Kind::kArrive, asked_++);
}

void Fleet::arrive(std::int64_t number) {
  ++arrived_;
  if (!options_.concurrency) next_arrival();
  if (options_.front_end_s != 0.0) {
    agenda_.push(agenda_.now() + options_.front_end_s, Kind::kEnqueue, number);
  } else {
    enqueue(sequences_[static_cast<std::size_t>(number)]);
  }
}

void Fleet::enqueue(Sequence& sequence) {
  const ServedModel& model = models_[static_cast<std::size_t>(sequence.model)];
  Instance& instance = model.router.choose(sequence, model.takers);
  sequence.instance = instance.number();
  if (scaling_) ++scaling_->pools[static_cast<std::size_t>(instance.place.pool)].arrived;
  sequence.shed = refusal(sequence, instance);
  if (sequence.shed != Shed::kNo) {
    if (options_.concurrency) next_arrival();
    return;
  }
  instance.add(sequence);
  agenda_.got(instance);
}

Shed Fleet::refusal(const Sequence& sequence, const Instance& instance) const {
  const std::int64_t tokens = std::int64_t{sequence.input} + sequence.output;
  std::int64_t blocks = instance.scheduler.cache.blocks();
  const Takers& receivers = models_[static_cast<std::size_t>(sequence.model)].receivers;
  if (!receivers.empty()) blocks = std::min(blocks, receivers.front()->scheduler.cache.blocks());
  const std::int64_t room = blocks * instance.scheduler.cache.block_tokens();
  if (sequence.input >= room) return Shed::kPrompt;
  if (tokens > room) return Shed::kAnswer;
  if (tokens > options_.max_model_tokens) return Shed::kModelTokens;
  if (options_.queue_limit && static_cast<std::int64_t>(instance.scheduler.waiting.size()) >= options_.queue_limit) return Shed::kQueueFull;
  return Shed::kNo;
}

void Fleet::begin(std::size_t number) {
  if (!agenda_.may_begin(number)) return;
  Replica& replica = agenda_.replica(number);
  const std::optional<double> end = replica.begin(agenda_.now());
  for (Instance* each : replica.instances) {
    if (each->place.role == Role::kPrefill) hand_over_->stream(*each, end, model_of(*each).receivers);
  }
  agenda_.ends(number, end);
}

void Fleet::end(std::size_t number, std::int32_t stamp) {
  const Replica& replica = agenda_.replica(number);
  if (stamp != replica.stamp) return;  // of a jump that was cut
  for (Instance* each : replica.instances) each->end(agenda_.now(), model_of(*each).gaps);
  for (Instance* each : replica.instances) {
    for (std::size_t count = options_.concurrency ? each->finished.size() : 0; count; --count) next_arrival();
    if (scaling_) {
      std::vector<double>& ttfts = scaling_->pools[static_cast<std::size_t>(each->place.pool)].ttfts;
      for (const Sequence* one : each->first_tokens) ttfts.push_back(agenda_.now() - one->arrival);
    }
    if (each->place.role == Role::kPrefill) {
      for (Sequence* one : each->first_tokens) {
        if (!one->is_done()) hand_over_->take(*one, *each, model_of(*each).receivers);
      }
    } else if (each->place.role == Role::kDecode) {
      hand_over_->adopt(*each);
    }
  }
  agenda_.wake(number);
}

}  // namespace astra::serving
