// A queue of every NPU: chunks that run, as many as it has slots, and others that wait in its order. Its meaning is that of
// astra_sim/engine/queues.py, whose names it uses; there a queue is that of one NPU.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "host.hpp"
#include "programs.hpp"
#include "waiting.hpp"

namespace astra {

// A rule of an order. What the host says of a sort of jobs are keys by it, but where it goes by priority.
struct Rule {
  bool by_priority;
  bool before_equal;
  bool in_turn;
};

// The slots of a queue, and its rules; none where its order is a function.
struct QueuePlan {
  std::int64_t slots;
  std::vector<Rule> rules;
};

class Queue {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // Raises std::invalid_argument for a queue without slots.
  static std::unique_ptr<Queue> make(std::uint32_t number, const QueuePlan& plan, std::size_t npus);
  virtual ~Queue() = default;

  // Let a chunk wait at the place that the order gives it.
  virtual void enter(Host& host, std::uint32_t npu, std::uint32_t chunk, const Job& job) = 0;
  // Give the next chunk a slot; kNone where no slot is free or nothing waits.
  std::uint32_t start(std::uint32_t npu);
  // Let a chunk that runs go.
  void leave(std::uint32_t npu, std::uint32_t chunk);

 protected:
  Queue(std::uint32_t number, std::int64_t slots, std::size_t npus) : number_(number), slots_(slots), running_(npus) {}
  // The next chunk, which is about to run, or kNone.
  virtual std::uint32_t next(std::uint32_t npu) = 0;
  virtual void gone(std::uint32_t npu, std::uint32_t chunk) = 0;
  std::uint32_t number() const { return number_; }
  std::uint32_t running(std::uint32_t npu) const { return running_[npu]; }

 private:
  std::uint32_t number_;
  std::int64_t slots_;
  std::vector<std::uint32_t> running_;
};

// A queue whose order is a function. It is shown all jobs, those that run in front. What it says of a short queue is remembered, for other
// NPUs and later.
class AskedQueue : public Queue {
 public:
  AskedQueue(std::uint32_t number, std::int64_t slots, std::size_t npus) : Queue(number, slots, npus), npus_(npus) {}
  void enter(Host& host, std::uint32_t npu, std::uint32_t chunk, const Job& job) override;

 protected:
  std::uint32_t next(std::uint32_t npu) override;
  void gone(std::uint32_t npu, std::uint32_t chunk) override;

 private:
  static constexpr std::size_t kShort = 64;                            // jobs
  static constexpr std::size_t kRememberedWords = std::size_t{1} << 20;  // of answers

  struct Npu {
    std::deque<Job> jobs;
    std::deque<std::uint32_t> chunks;
  };

  struct HashWords {
    std::size_t operator()(const std::vector<std::uint32_t>& words) const;
  };

  std::uint32_t place_of(Host& host, std::uint32_t npu, const Job& job);
  std::uint32_t ask(Host& host, std::uint32_t npu, const Job& job);
  void make_key(std::uint32_t npu, const Job& job);

  std::vector<Npu> npus_;
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, HashWords> places_;
  std::vector<bool> known_first_;  // for which sorts of jobs the order was asked while the queue was empty
  std::vector<std::uint32_t> key_;
  std::vector<std::int64_t> priorities_;
  std::size_t words_ = 0;
};

// A queue whose order is rules. Only what waits has a place.
class RuledQueue : public Queue {
 public:
  RuledQueue(std::uint32_t number, const QueuePlan& plan, std::size_t npus)
      : Queue(number, plan.slots, npus), rules_(plan.rules), waiting_(plan.rules.size()), trees_(npus, Waiting::kNone) {}
  void enter(Host& host, std::uint32_t npu, std::uint32_t chunk, const Job& job) override;

 protected:
  std::uint32_t next(std::uint32_t npu) override;
  void gone(std::uint32_t, std::uint32_t) override {}

 private:
  std::vector<Rule> rules_;
  Waiting waiting_;
  std::vector<Waiting::Tree> trees_;  // of each NPU
  std::unordered_map<std::uint32_t, Standing> standings_;  // by sort of job
  std::vector<Mark> marks_;
};

}  // namespace astra
