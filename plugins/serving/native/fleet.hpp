// A fleet of instances: arrivals, routing and the order of events in time, as fleet.ServingFleet of Python has them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agenda.hpp"
#include "hand_over.hpp"
#include "instance.hpp"
#include "policies.hpp"
#include "router.hpp"
#include "weighted_values.hpp"

namespace astra::serving {

struct FleetOptions {
  std::int64_t concurrency = 0;  // requests in the system; 0: they arrive at their times
  double front_end_s = 0.0;
  std::int64_t queue_limit = 0;  // 0: none
  std::int64_t max_model_tokens = std::numeric_limits<std::int64_t>::max();
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

// What autoscaling sees of an instance: autoscale.InstanceLoad of Python.
struct InstanceLoad {
  std::int64_t waiting;
  std::int64_t used_blocks;
  std::int64_t held;
};

// What autoscaling sees of a pool since its last decision: requests that arrived, and times to first tokens.
struct PoolPeriod {
  std::int64_t arrived = 0;
  std::vector<double> ttfts;
};

// Decides every `period_s` which instances start, in Python. `decide` takes the unit that has started (-1: none, decide), the time, the
// loads of all instances and the periods of all pools. It returns the units that start, and the instances that take requests from now on.
struct Scaling {
  using Decision = std::pair<std::vector<Number>, std::vector<Number>>;
  using Decide = std::function<Decision(Number, double, const std::vector<InstanceLoad>&, const std::vector<PoolPeriod>&)>;

  Decide decide;
  double period_s = 0.0;
  double cold_start_s = 0.0;
  std::vector<PoolPeriod> pools;
};

// Requests of one model: the instances that they may go to, and those that take their keys and values over.
struct ServedModel {
  explicit ServedModel(Router router) : router(std::move(router)) {}

  Router router;
  Takers takers;
  Takers receivers;
  WeightedValues gaps;
};

class Fleet {
 public:
  Fleet(FleetOptions options, RandomStream stream);
  Fleet(const Fleet&) = delete;  // instances refer to its contents
  Fleet& operator=(const Fleet&) = delete;

  void add_model(Router router) { models_.emplace_back(std::move(router)); }
  // `policy`: what plans; none: the rules of vLLM. `speculation`: the outcomes of its drafts.
  void add_instance(Place place, const InstanceOptions& options, std::shared_ptr<Policy> policy, std::shared_ptr<Speculation> speculation);
  // Let the last `count` instances begin and end iterations together.
  void add_replica(std::size_t count, std::shared_ptr<IterationTime> time, bool jumps);
  // Requests in order, before the run. `contents` are the ids of the tokens that their prompts share with others.
  void add_requests(std::vector<Sequence> requests, std::vector<std::int64_t> contents);
  // Let keys and values go from instances for prompts to those for answers.
  void hand_over(std::shared_ptr<Transfers> transfers) {
    hand_over_ = std::make_unique<HandOver>(agenda_, std::move(transfers), Router("least-kv", 0.0, stream_));
  }
  void scale(Scaling scaling) { scaling_ = std::move(scaling); }
  // Let requests go to these instances alone.
  void open(const std::vector<Number>& numbers);

  // Let up to `most` events happen. Returns how many did: fewer if all requests have ended.
  std::int64_t advance(std::int64_t most);

  double now() const { return agenda_.now(); }
  std::int64_t events() const { return agenda_.events(); }
  std::int64_t arrived() const { return arrived_; }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<std::unique_ptr<Instance>>& instances() const { return instances_; }
  // Gaps between tokens of a model, in ascending order; of all for -1.
  const std::vector<Weighted>& gaps(Number model);

 private:
  ServedModel& model_of(const Instance& instance) { return models_[static_cast<std::size_t>(instance.place.model)]; }
  void start();
  void happen(const Event& event);
  void next_arrival();
  void arrive(std::int64_t number);
  void enqueue(Sequence& sequence);
  void begin(std::size_t number);
  void end(std::size_t number, std::int32_t stamp);
  void decide(Number started);
  Shed refusal(const Sequence& sequence, const Instance& instance) const;

  FleetOptions options_;
  std::vector<ServedModel> models_;
  RandomStream stream_;
  Agenda agenda_;
  std::unique_ptr<HandOver> hand_over_;
  std::optional<Scaling> scaling_;
  WeightedValues all_gaps_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> contents_;
  bool has_started_ = false;
  std::int64_t asked_ = 0;
  std::int64_t arrived_ = 0;
};

}  // namespace astra::serving
