// A fleet of instances: arrivals, routing and the order of events in time, as fleet.ServingFleet of Python has them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "instance.hpp"
#include "policies.hpp"
#include "replica.hpp"
#include "router.hpp"
#include "transfers.hpp"
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
  void hand_over(std::shared_ptr<Transfers> transfers) { transfers_ = std::move(transfers); }
  void scale(Scaling scaling) { scaling_ = std::move(scaling); }
  // Let requests go to these instances alone.
  void open(const std::vector<Number>& numbers);

  // Let up to `most` events happen. Returns how many did: fewer if all requests have ended.
  std::int64_t advance(std::int64_t most);

  double now() const { return now_; }
  std::int64_t events() const { return events_; }
  std::int64_t arrived() const { return arrived_; }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<std::unique_ptr<Instance>>& instances() const { return instances_; }
  // Gaps between tokens of a model, in ascending order; of all for -1.
  const std::vector<Weighted>& gaps(Number model);

 private:
  // In the order in which events of one instant happen.
  enum class Kind : std::uint8_t { kArrive, kEnqueue, kEnd, kTransferred, kBegin, kStarted, kScale };
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
  // A sequence that goes from an instance to another, which has its blocks for it, those of `claim`, when it is granted: `HandedOver` of
  // Python.
  struct Way {
    Sequence* sequence;
    Instance* sender;
    Instance* receiver;
    Sequence claim;
    bool is_granted = false;
    bool is_computed = false;
    std::vector<Chunk> chunks;  // computed before that
    Tokens seen = 0;            // tokens in some chunk

    Route route() const { return {sequence->number, sender->number(), receiver->number()}; }
  };

  void start();
  void push(double at, Kind kind, std::int64_t what, std::int32_t stamp = 0);
  void advance_transfers();
  void happen(const Event& event);
  void next_arrival();
  void arrive(std::int64_t number);
  void enqueue(Sequence& sequence);
  void got(const Instance& instance);
  void reschedule(std::size_t number, std::optional<double> end);
  void begin(std::size_t number);
  void end(std::size_t number, std::int32_t stamp);
  void ended();
  void wake(std::size_t number);
  void stream(Instance& sender, std::optional<double> end);
  Way& way(Sequence& sequence, Instance& sender);
  void take_back(const Sequence& sequence);
  void hand_over(Sequence& sequence, Instance& sender);
  void adopt(Instance& receiver);
  void close(const Way& way);
  void transferred(Sequence& sequence);
  void decide(Number started);
  Shed refusal(const Sequence& sequence, const Instance& instance) const;

  FleetOptions options_;
  std::vector<ServedModel> models_;
  Router receiver_router_;
  std::shared_ptr<Transfers> transfers_;
  std::unordered_map<Number, Way> ways_;
  std::optional<Scaling> scaling_;
  WeightedValues all_gaps_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<Replica> replicas_;
  std::vector<std::size_t> replica_of_;
  std::vector<char> is_woken_;
  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> contents_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::int64_t going_on_ = 0;  // events that are to happen but for starts and decisions of autoscaling
  bool has_started_ = false;
  double now_ = 0.0;
  std::int64_t events_ = 0;
  std::int64_t pushed_ = 0;
  std::int64_t asked_ = 0;
  std::int64_t arrived_ = 0;
};

}  // namespace astra::serving
