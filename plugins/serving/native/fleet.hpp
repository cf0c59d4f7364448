// A fleet of instances: arrivals, routing and the order of events in time, as fleet.ServingFleet of Python has them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "instance.hpp"
#include "policies.hpp"
#include "random_stream.hpp"
#include "replica.hpp"
#include "weighted_values.hpp"

namespace astra::serving {

struct FleetOptions {
  std::int64_t concurrency = 0;  // requests in the system; 0: they arrive at their times
  double front_end_s = 0.0;
  std::int64_t queue_limit = 0;  // 0: none
  std::int64_t max_model_tokens = std::numeric_limits<std::int64_t>::max();
  std::string router;
  double prefix_beta = 0.0;
};

struct InstanceOptions {
  std::int64_t blocks = 0;
  Tokens block_tokens = 0;
  bool prefix_caching = false;
  Limits limits;
  bool by_priority = false;
  Tokens drafts = 0;
  std::string policy_name;
};

class Fleet {
 public:
  Fleet(FleetOptions options, RandomStream stream);
  Fleet(const Fleet&) = delete;  // instances refer to its contents
  Fleet& operator=(const Fleet&) = delete;

  // `policy`: what plans; none: the rules of vLLM. `speculation`: the outcomes of its drafts.
  void add_instance(const InstanceOptions& options, std::shared_ptr<Policy> policy, std::shared_ptr<Speculation> speculation);
  // Let the last `count` instances begin and end iterations together.
  void add_replica(std::size_t count, std::shared_ptr<IterationTime> time, bool jumps);
  // Requests in order, before the run. `contents` are the ids of the tokens that their prompts share with others.
  void add_requests(std::vector<Sequence> requests, std::vector<std::int64_t> contents);
  // The instance of each request, for a router that looks at the request alone.
  void choose(std::vector<Number> choices) { choices_ = std::move(choices); }

  // Let up to `most` events happen. Returns how many did: fewer if all requests have ended.
  std::int64_t advance(std::int64_t most);

  double now() const { return now_; }
  std::int64_t events() const { return events_; }
  std::int64_t arrived() const { return arrived_; }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<std::unique_ptr<Instance>>& instances() const { return instances_; }
  WeightedValues& gaps() { return gaps_; }

 private:
  // In the order in which events of one instant happen.
  enum class Kind : std::uint8_t { kArrive, kEnqueue, kEnd, kBegin };
  struct Event {
    double at;
    Kind kind;
    std::int64_t count;
    std::int64_t what;
    std::int32_t stamp;

    bool operator>(const Event& other) const {
      if (at != other.at) return at > other.at;
      if (kind != other.kind) return kind > other.kind;
      return count > other.count;
    }
  };
  using Load = std::function<double(const Instance&)>;

  void start();
  void push(double at, Kind kind, std::int64_t what, std::int32_t stamp = 0);
  void next_arrival();
  void arrive(std::int64_t number);
  void enqueue(Sequence& sequence);
  void begin(std::size_t number);
  void end(std::size_t number, std::int32_t stamp);
  void ended();
  void wake(std::size_t number);
  Shed refusal(const Sequence& sequence, const Instance& instance) const;
  std::size_t least_loaded() const;
  std::size_t two_choices(const Sequence& sequence) const;
  std::size_t with_prefix(const Sequence& sequence) const;

  FleetOptions options_;
  RandomStream stream_;
  std::function<std::size_t(const Sequence&)> router_;
  Load load_;
  std::vector<Number> choices_;
  std::uint64_t turn_ = 0;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<Replica> replicas_;
  std::vector<std::size_t> replica_of_;
  std::vector<char> is_woken_;
  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> contents_;
  WeightedValues gaps_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  bool has_started_ = false;
  double now_ = 0.0;
  std::int64_t events_ = 0;
  std::int64_t pushed_ = 0;
  std::int64_t asked_ = 0;
  std::int64_t arrived_ = 0;
};

}  // namespace astra::serving
