#include "fleet.hpp"

#include <algorithm>
#include <utility>

namespace astra::serving {

Fleet::Fleet(FleetOptions options, RandomStream stream) : options_(options), receiver_router_("least-kv", 0.0, stream) {}

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
  instances_.push_back(std::make_unique<Instance>(place, std::move(scheduler), std::move(speculation)));
}

void Fleet::add_replica(std::size_t count, std::shared_ptr<IterationTime> time, bool jumps) {
  std::vector<Instance*> ranks;
  for (auto each = instances_.end() - static_cast<std::ptrdiff_t>(count); each != instances_.end(); ++each) ranks.push_back(each->get());
  replica_of_.resize(instances_.size(), replicas_.size());
  replicas_.emplace_back(std::move(ranks), std::move(time), jumps);
  is_woken_.push_back(0);
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
    ServedModel& model = models_[static_cast<std::size_t>(instance->place.model)];
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
    if (transfers_ && transfers_->is_under_way()) advance_transfers();
    if (queue_.empty()) break;
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    going_on_ -= event.kind < Kind::kStarted;
    ++events_;
    ++done;
    happen(event);
  }
  return done;
}

// Let the network that transfers share go on up to the next event that may begin others.
void Fleet::advance_transfers() {
  std::optional<double> until;
  if (going_on_) until = queue_.top().at;
  const auto [at, requests] = transfers_->advance(until);
  for (const Number request : requests) push(std::max(now_, at), Kind::kTransferred, request);
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
      return transferred(sequences_[what]);
    case Kind::kBegin:
      return begin(what);
    case Kind::kStarted:
    case Kind::kScale:
      return decide(static_cast<Number>(event.what));
  }
}

void Fleet::start() {
  has_started_ = true;
  if (scaling_) push(scaling_->period_s, Kind::kScale, -1);
  for (std::int64_t count = std::max<std::int64_t>(1, options_.concurrency); count; --count) next_arrival();
}

void Fleet::push(double at, Kind kind, std::int64_t what, std::int32_t stamp) {
  going_on_ += kind < Kind::kStarted;
  queue_.push({at, kind, ++pushed_, what, stamp});
}

// Tell the autoscaler that a unit has started, or let it decide, while something else is to happen.
void Fleet::decide(Number started) {
  if (started < 0 && !going_on_) return;
  std::vector<InstanceLoad> loads;
  for (const auto& each : instances_) {
    const Scheduler& scheduler = each->scheduler;
    loads.push_back({static_cast<std::int64_t>(scheduler.waiting.size()), scheduler.cache.used_blocks(), each->requests() + each->coming});
  }
  const auto [starting, takers] = scaling_->decide(started, now_, loads, scaling_->pools);
  open(takers);
  if (started >= 0) return;
  for (PoolPeriod& each : scaling_->pools) each = {};
  for (const Number unit : starting) push(now_ + scaling_->cold_start_s, Kind::kStarted, unit);
  push(now_ + scaling_->period_s, Kind::kScale, -1);
}

void Fleet::next_arrival() {
  if (asked_ == static_cast<std::int64_t>(sequences_.size())) return;
  Sequence& sequence = sequences_[static_cast<std::size_t>(asked_)];
  if (options_.concurrency) sequence.arrival = now_;
  push(sequence.arrival, Kind::kArrive, asked_++);
}

void Fleet::arrive(std::int64_t number) {
  ++arrived_;
  if (!options_.concurrency) next_arrival();
  if (options_.front_end_s != 0.0) {
    push(now_ + options_.front_end_s, Kind::kEnqueue, number);
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
    ended();
    return;
  }
  instance.add(sequence);
  got(instance);
}

// Begin an iteration for a sequence that an instance has got, or let a jump end for it.
void Fleet::got(const Instance& instance) {
  const std::size_t number = replica_of_[static_cast<std::size_t>(instance.number())];
  if (!replicas_[number].is_busy()) {
    wake(number);
  } else {
    reschedule(number, replicas_[number].interrupt(instance, now_));
  }
}

void Fleet::reschedule(std::size_t number, std::optional<double> end) {
  if (end) push(*end, Kind::kEnd, static_cast<std::int64_t>(number), replicas_[number].stamp);
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
  is_woken_[number] = 0;
  Replica& replica = replicas_[number];
  if (replica.is_busy()) return;
  const std::optional<double> end = replica.begin(now_);
  if (transfers_) {
    for (Instance* each : replica.instances) {
      if (each->place.role == Role::kPrefill) stream(*each, end);
    }
  }
  reschedule(number, end);
}

void Fleet::end(std::size_t number, std::int32_t stamp) {
  const Replica& replica = replicas_[number];
  if (stamp != replica.stamp) return;  // of a jump that was cut
  for (Instance* each : replica.instances) each->end(now_, models_[static_cast<std::size_t>(each->place.model)].gaps);
  for (Instance* each : replica.instances) {
    for (std::size_t count = each->finished.size(); count; --count) ended();
    if (scaling_) {
      std::vector<double>& ttfts = scaling_->pools[static_cast<std::size_t>(each->place.pool)].ttfts;
      for (const Sequence* one : each->first_tokens) ttfts.push_back(now_ - one->arrival);
    }
    if (each->place.role == Role::kPrefill) {
      for (Sequence* one : each->first_tokens) {
        if (!one->is_done()) hand_over(*one, *each);
      }
    } else if (each->place.role == Role::kDecode) {
      adopt(*each);
    }
  }
  wake(number);
}

// Send what an iteration computes layer by layer, if layers are sent so: to the receivers that have blocks.
void Fleet::stream(Instance& sender, std::optional<double> end) {
  if (!transfers_->by_layer()) return;
  for (const Sequence* each : sender.gave_way) take_back(*each);
  if (!end) return;
  RoutedChunks parts;
  for (const auto& [sequence, tokens] : sender.batch()) {
    if (sequence->output < 2) continue;
    Way& each = way(*sequence, sender);
    const Chunk chunk{now_, *end, sequence->computed + tokens - each.seen};
    each.seen += chunk.tokens;
    if (each.is_granted) {
      parts.emplace_back(each.route(), chunk);
    } else {
      each.chunks.push_back(chunk);
    }
  }
  transfers_->stream(now_, parts);
}

// A sequence on its way, the first time to the instance that is chosen then, which is asked for blocks.
Fleet::Way& Fleet::way(Sequence& sequence, Instance& sender) {
  const auto known = ways_.find(sequence.number);
  if (known != ways_.end()) return known->second;
  Instance& receiver = receiver_router_.choose(sequence, models_[static_cast<std::size_t>(sequence.model)].receivers);
  Way& result = ways_[sequence.number];
  result.sequence = &sequence;
  result.sender = &sender;
  result.receiver = &receiver;
  static_cast<Request&>(result.claim) = sequence;
  result.claim.total = sequence.input + 1;
  ++receiver.coming;
  receiver.incoming.push_back(sequence.number);
  adopt(receiver);
  return result;
}

// Forget that a sequence is on its way, which lost its blocks: another may need those that are kept for it.
void Fleet::take_back(const Sequence& sequence) {
  const auto known = ways_.extract(sequence.number);
  if (known.empty()) return;
  Way lost = std::move(known.mapped());
  Instance& receiver = *lost.receiver;
  --receiver.coming;
  if (lost.is_granted) {
    receiver.scheduler.cache.release(lost.claim);
  } else {
    receiver.incoming.erase(std::find(receiver.incoming.begin(), receiver.incoming.end(), sequence.number));
  }
  transfers_->forget(sequence.number);
  adopt(receiver);
  got(receiver);
}

// Take a sequence out of the running ones of its instance, which keeps its blocks until they are sent.
void Fleet::hand_over(Sequence& sequence, Instance& sender) {
  std::vector<Sequence*>& running = sender.scheduler.running;
  running.erase(std::find(running.begin(), running.end(), &sequence));
  Way& each = way(sequence, sender);
  sequence.prefill_instance = sender.number();
  sequence.instance = each.receiver->number();
  each.is_computed = true;
  if (each.is_granted) close(each);
}

// Grant the blocks for which an instance has room, in the order in which they were asked for, and begin these transfers.
void Fleet::adopt(Instance& receiver) {
  if (receiver.incoming.empty()) return;
  const std::size_t number = replica_of_[static_cast<std::size_t>(receiver.number())];
  reschedule(number, replicas_[number].cut(now_));
  KvCache& cache = receiver.scheduler.cache;
  while (!receiver.incoming.empty()) {
    Way& next = ways_.at(receiver.incoming.front());
    if (cache.blocks_for(next.claim.total) > cache.free_blocks()) break;
    receiver.incoming.pop_front();
    cache.grow(next.claim, next.claim.total);
    next.is_granted = true;
    RoutedChunks parts;
    for (const Chunk& each : next.chunks) parts.emplace_back(next.route(), each);
    transfers_->stream(now_, parts);
    if (next.is_computed) close(next);
  }
}

// Wait for the end of the transfer of a prompt that has ended.
void Fleet::close(const Way& way) {
  const auto end = transfers_->close(now_, way.route(), way.sequence->computed);
  if (end) push(*end, Kind::kTransferred, way.sequence->number);
}

void Fleet::transferred(Sequence& sequence) {
  auto ended = ways_.extract(sequence.number);
  Instance& sender = *ended.mapped().sender;
  Instance& receiver = *ended.mapped().receiver;
  sender.scheduler.cache.release(sequence);
  sequence.blocks = std::move(ended.mapped().claim.blocks);
  sequence.capacity = ended.mapped().claim.capacity;
  sequence.transfer_end = now_;
  --receiver.coming;
  receiver.scheduler.add(sequence);
  const std::size_t number = replica_of_[static_cast<std::size_t>(sender.number())];
  if (!replicas_[number].is_busy()) wake(number);
  got(receiver);
}

void Fleet::ended() {
  if (options_.concurrency) next_arrival();
}

void Fleet::wake(std::size_t number) {
  if (is_woken_[number]) return;
  is_woken_[number] = 1;
  push(now_, Kind::kBegin, static_cast<std::int64_t>(number));
}

}  // namespace astra::serving
