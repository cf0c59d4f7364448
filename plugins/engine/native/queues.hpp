// The queues of NPUs: phase steps that run, as many as a queue has slots, and others that wait in its order.
//
// A dimension of the platform has a queue on every NPU, and a job in it is a chunk in one of its phases. One object is a queue of every
// NPU. The order is a set of rules, which the engine follows itself, or a function, which it calls; its results for a short queue are
// remembered, for other NPUs and later.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "agreement.hpp"
#include "host.hpp"
#include "interface.hpp"
#include "waiting.hpp"

namespace astra::engine {

class Queue {
 public:
  virtual ~Queue() = default;

  // Let a step wait at the place that the order gives it. It has a key where it may be wanted by that.
  virtual void enter(NpuId npu, StepId step, Key key, const Job& job) = 0;
  // Give the next step a slot, or the one with the key that is wanted; kNone if no slot is free, or it does not wait here.
  StepId start(NpuId npu, Key wanted);
  // Let a step that runs go.
  virtual void leave(NpuId npu, StepId step);

 protected:
  // Raises std::invalid_argument for a queue without slots.
  Queue(Host& host, QueueId number, std::int64_t slots, std::size_t npus);
  // The next step, which is about to run, or kNone.
  virtual StepId next(NpuId npu) = 0;
  // The step with a key, which is about to run; kNone if it does not wait here.
  virtual StepId take(NpuId npu, Key key) = 0;
  Host& host() const { return host_; }
  QueueId number() const { return number_; }
  std::uint32_t running(NpuId npu) const { return running_[npu]; }

 private:
  Host& host_;
  QueueId number_;
  std::int64_t slots_;
  std::vector<std::uint32_t> running_;
};

// A queue whose order is a function. It is shown all jobs, the running ones in front. Its results for a short queue are cached, for other
// NPUs and later.
class AskedQueue : public Queue {
 public:
  AskedQueue(Host& host, QueueId number, std::int64_t slots, std::size_t npus) : Queue(host, number, slots, npus), npus_(npus) {}
  void enter(NpuId npu, StepId step, Key key, const Job& job) override;
  void leave(NpuId npu, StepId step) override;

 protected:
  StepId next(NpuId npu) override;
  StepId take(NpuId npu, Key key) override;

 private:
  static constexpr std::size_t kShort = 64;                              // jobs
  static constexpr std::size_t kRememberedWords = std::size_t{1} << 20;  // of answers

  struct Npu {
    std::deque<Job> jobs;
    std::deque<StepId> steps;
    std::deque<Key> keys;
  };

  struct HashWords {
    std::size_t operator()(const std::vector<std::uint32_t>& words) const;
  };

  // The place of a new job. Earlier results of the order for a short queue are cached.
  std::uint32_t place_of(NpuId npu, const Job& job);
  // Ask the order for the place of a new job.
  std::uint32_t ask(NpuId npu, const Job& job);
  // The key of the order for a new job, in key_: of priorities only which are higher.
  void make_key(NpuId npu, const Job& job);

  std::vector<Npu> npus_;
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, HashWords> places_;
  std::vector<bool> known_first_;  // for which classes of jobs the order was asked while the queue was empty
  std::vector<std::uint32_t> key_;
  std::vector<std::int64_t> priorities_;
  std::size_t words_ = 0;
};

// A queue whose order is rules. Only waiting jobs have a place.
class RuledQueue : public Queue {
 public:
  RuledQueue(Host& host, QueueId number, const QueuePlan& plan, std::size_t npus)
      : Queue(host, number, plan.slots, npus), rules_(plan.rules), waiting_(plan.rules.size()), trees_(npus, kNone) {}
  void enter(NpuId npu, StepId step, Key key, const Job& job) override;

 protected:
  StepId next(NpuId npu) override;
  StepId take(NpuId npu, Key key) override;

 private:
  std::vector<Rule> rules_;
  Waiting waiting_;
  std::vector<Waiting::Tree> trees_;                           // of each NPU
  std::vector<std::unordered_map<Key, Waiting::Tree>> nodes_;  // of each NPU, if steps have keys
  std::unordered_map<JobClass, Standing> standings_;           // by class of job
  std::vector<Mark> marks_;
};

// A queue with an order.
std::unique_ptr<Queue> make_queue(Host& host, QueueId number, const QueuePlan& plan, std::size_t npus);

}  // namespace astra::engine
