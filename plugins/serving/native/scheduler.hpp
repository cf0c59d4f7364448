// Which tokens an iteration computes, by the rules of vLLM: scheduler.InstanceScheduler of Python.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "batch.hpp"
#include "kv_cache.hpp"

namespace astra::serving {

struct Limits {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t prefill_tokens = 0;
};

class Scheduler {
 public:
  // `drafts`: the most tokens that are drafted for each sequence that decodes.
  Scheduler(KvCache cache, Limits limits, bool by_priority, Tokens drafts)
      : cache(std::move(cache)), limits_(limits), drafts_(drafts), by_priority_(by_priority) {}
  virtual ~Scheduler() = default;

  void add(Sequence& sequence);
  // The sequences of the next iteration; `preempted` and `admitted` then list those that were.
  virtual void plan(Batch& batch, double now);
  // Remove sequences whose answers are complete, and free their blocks.
  void finish(const std::vector<Sequence*>& sequences);

  bool is_steady() const { return steady_; }
  // Whether a request that has just been added may change the next iteration.
  virtual bool may_take_more() const { return has_place() && (by_priority_ || receives || waiting.size() < 2); }

  KvCache cache;
  std::deque<Sequence*> waiting;
  std::vector<Sequence*> running;
  std::vector<Sequence*> preempted;
  std::vector<Sequence*> admitted;
  std::int64_t hit_tokens = 0;
  std::int64_t looked_up_tokens = 0;
  bool receives = false;  // sequences come from other instances, with their blocks
  bool sends = false;     // they leave for others: one that was preempted is computed again when there are blocks for all of it

 protected:
  bool has_place() const { return static_cast<std::int64_t>(running.size()) < limits_.sequences; }
  void preempt(std::size_t place);
  // Take the blocks of the last sequence that waits with some, which is to be computed anew; false if there is none.
  bool take_back();
  // Give a sequence the blocks that match it, and those of the tokens behind them.
  void start(Sequence& sequence, const std::vector<std::int32_t>& matching, Tokens tokens);
  void enter(Sequence& sequence);
  // Tokens that are drafted for a sequence that decodes: as many as the budget has, and none if there are no blocks for them.
  Tokens draft(Sequence& sequence, std::int64_t budget);
  Tokens cut(Tokens tokens, std::int64_t budget) const;

  Limits limits_;
  Tokens drafts_;
  bool steady_ = false;

 private:
  struct Planned {
    std::int64_t budget;
    bool steady;
  };

  Planned plan_running(Batch& batch);
  void admit(Batch& batch, std::int64_t budget);
  Tokens fitting(Sequence& sequence, std::int64_t budget);
  std::size_t victim() const;
  void lose(Sequence& sequence);

  bool by_priority_;
};

}  // namespace astra::serving
