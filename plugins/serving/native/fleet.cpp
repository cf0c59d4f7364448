#include "fleet.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace astra::serving {

Fleet::Fleet(FleetOptions options, RandomStream stream) : options_(std::move(options)), stream_(stream) {
  const std::string& name = options_.router;
  if (name == "round-robin") {
    router_ = [this](const Sequence&) { return static_cast<std::size_t>(turn_++ % instances_.size()); };
  } else if (name == "random") {
    router_ = [this](const Sequence& each) {
      return static_cast<std::size_t>(stream_.uniform(static_cast<std::uint64_t>(each.number)) * static_cast<double>(instances_.size()));
    };
  } else if (name == "two-choices") {
    router_ = [this](const Sequence& each) { return two_choices(each); };
  } else if (name == "prefix") {
    router_ = [this](const Sequence& each) { return with_prefix(each); };
  } else if (name == "chosen") {
    router_ = [this](const Sequence& each) { return static_cast<std::size_t>(choices_.at(static_cast<std::size_t>(each.number))); };
  } else {
    router_ = [this](const Sequence&) { return least_loaded(); };
  }
  if (name == "least-requests") {
    load_ = [](const Instance& each) { return static_cast<double>(each.requests()); };
  } else if (name == "least-waiting") {
    load_ = [](const Instance& each) { return static_cast<double>(4 * each.scheduler.waiting.size() + each.scheduler.running.size()); };
  } else if (name == "least-tokens") {
    load_ = [](const Instance& each) { return static_cast<double>(each.outstanding_tokens()); };
  } else if (name == "least-kv") {
    load_ = [](const Instance& each) {
      return static_cast<double>(each.scheduler.cache.used_blocks()) / static_cast<double>(each.scheduler.cache.blocks());
    };
  }
}

void Fleet::add_instance(const InstanceOptions& options, std::shared_ptr<Policy> policy, std::shared_ptr<Speculation> speculation) {
  KvCache cache(options.blocks, options.block_tokens, options.prefix_caching, contents_);
  std::unique_ptr<Scheduler> scheduler;
  if (policy) {
    scheduler = std::make_unique<PolicyScheduler>(std::move(policy), options.policy_name, std::move(cache), options.limits, options.drafts);
  } else {
    scheduler = std::make_unique<Scheduler>(std::move(cache), options.limits, options.by_priority, options.drafts);
  }
  instances_.push_back(std::make_unique<Instance>(static_cast<Number>(instances_.size()), std::move(scheduler), std::move(speculation)));
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

std::int64_t Fleet::advance(std::int64_t most) {
  if (!has_started_) start();
  std::int64_t done = 0;
  while (done < most && !queue_.empty()) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    ++events_;
    ++done;
    const auto what = static_cast<std::size_t>(event.what);
    switch (event.kind) {
      case Kind::kArrive:
        arrive(event.what);
        break;
      case Kind::kEnqueue:
        enqueue(sequences_[what]);
        break;
      case Kind::kEnd:
        end(what, event.stamp);
        break;
      case Kind::kBegin:
        begin(what);
        break;
    }
  }
  return done;
}

void Fleet::start() {
  has_started_ = true;
  for (std::int64_t count = std::max<std::int64_t>(1, options_.concurrency); count; --count) next_arrival();
}

void Fleet::push(double at, Kind kind, std::int64_t what, std::int32_t stamp) { queue_.push({at, kind, ++pushed_, what, stamp}); }

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
  const std::size_t number = router_(sequence);
  Instance& instance = *instances_[number];
  sequence.instance = static_cast<Number>(number);
  sequence.shed = refusal(sequence, instance);
  if (sequence.shed != Shed::kNo) {
    ended();
    return;
  }
  instance.add(sequence);
  Replica& replica = replicas_[replica_of_[number]];
  if (!replica.is_busy()) {
    wake(replica_of_[number]);
  } else if (const std::optional<double> end = replica.interrupt(instance, now_)) {
    push(*end, Kind::kEnd, static_cast<std::int64_t>(replica_of_[number]), replica.stamp);
  }
}

Shed Fleet::refusal(const Sequence& sequence, const Instance& instance) const {
  const std::int64_t tokens = std::int64_t{sequence.input} + sequence.output;
  const std::int64_t room = instance.scheduler.cache.blocks() * instance.scheduler.cache.block_tokens();
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
  if (const std::optional<double> end = replica.begin(now_)) push(*end, Kind::kEnd, static_cast<std::int64_t>(number), replica.stamp);
}

void Fleet::end(std::size_t number, std::int32_t stamp) {
  const Replica& replica = replicas_[number];
  if (stamp != replica.stamp) return;  // of a jump that was cut
  for (Instance* each : replica.instances) each->end(now_, gaps_);
  for (const Instance* each : replica.instances) {
    for (std::size_t count = each->finished.size(); count; --count) ended();
  }
  wake(number);
}

void Fleet::ended() {
  if (options_.concurrency) next_arrival();
}

void Fleet::wake(std::size_t number) {
  if (is_woken_[number]) return;
  is_woken_[number] = 1;
  push(now_, Kind::kBegin, static_cast<std::int64_t>(number));
}

std::size_t Fleet::least_loaded() const {
  std::size_t best = 0;
  double least = load_(*instances_[0]);
  for (std::size_t each = 1; each < instances_.size(); ++each) {
    const double load = load_(*instances_[each]);
    if (load < least) {
      best = each;
      least = load;
    }
  }
  return best;
}

std::size_t Fleet::two_choices(const Sequence& sequence) const {
  const auto number = static_cast<std::uint64_t>(sequence.number);
  const std::size_t count = instances_.size();
  const auto first = static_cast<std::size_t>(stream_.uniform(2 * number) * static_cast<double>(count));
  if (count == 1) return first;
  const auto step = static_cast<std::size_t>(stream_.uniform(2 * number + 1) * static_cast<double>(count - 1));
  const std::size_t second = (first + 1 + step) % count;
  return instances_[second]->requests() < instances_[first]->requests() ? second : first;
}

std::size_t Fleet::with_prefix(const Sequence& sequence) const {
  std::int64_t requests = 0;
  for (const auto& each : instances_) requests += each->requests();
  double mean = static_cast<double>(requests) / static_cast<double>(instances_.size());
  if (mean == 0.0) mean = 1.0;
  std::size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t each = 0; each < instances_.size(); ++each) {
    Instance& instance = *instances_[each];
    const double cached = static_cast<double>(instance.scheduler.cache.match_tokens(sequence)) / static_cast<double>(sequence.input);
    const double value = cached - options_.prefix_beta * static_cast<double>(instance.requests()) / mean;
    if (value > most) {
      best = each;
      most = value;
    }
  }
  return best;
}

}  // namespace astra::serving
