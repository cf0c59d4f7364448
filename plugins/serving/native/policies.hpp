// Policies beside vLLM's rules, and the scheduler that carries out their plans: policies.py and presets.py of Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scheduler.hpp"

namespace astra::serving {

// Waiting requests whose beginnings are looked up for a policy.
constexpr std::size_t kLookedUp = 128;

// An instance as a policy sees it.
struct State {
  double now;
  const std::vector<Sequence*>& running;
  const std::deque<Sequence*>& waiting;
  KvCache& cache;
  Limits limits;

  std::int64_t free_blocks() const { return cache.free_blocks(); }
  std::int64_t block_tokens() const { return cache.block_tokens(); }
  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens() - 1) / block_tokens(); }
  // Requests that may be admitted, from the first that waits on.
  std::size_t places() const {
    return std::min(waiting.size(), static_cast<std::size_t>(limits.sequences - static_cast<std::int64_t>(running.size())));
  }
};

// A policy plans nothing though requests are here.
class StuckPolicy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Sequences, each once, with the tokens to compute: at least one sequence.
  virtual Batch plan(const State& state) = 0;
  // Whether the last plan, of one token of each that runs, stays until a request arrives or ends. `is_full`: nothing could be admitted
  // then.
  virtual bool keeps(bool is_full) = 0;
};

class PolicyScheduler final : public Scheduler {
 public:
  // `what` names the policy in errors.
  PolicyScheduler(std::shared_ptr<Policy> policy, std::string what, KvCache cache, Limits limits, Tokens drafts)
      : Scheduler(std::move(cache), limits, false, drafts), policy_(std::move(policy)), what_(std::move(what)) {}

  void plan(Batch& batch, double now) override;
  bool may_take_more() const override { return has_place(); }

 private:
  bool allocate(Sequence& sequence, Tokens tokens, const Batch& batch);
  bool make_room(const Batch& batch);
  bool give_way();
  bool runs(const Sequence& sequence) const;
  void admit_holders(Batch& batch);

  std::shared_ptr<Policy> policy_;
  std::string what_;
  Batch to_come_;  // what is left of a plan, the next last
};

// An iteration that is filled while its tokens last.
class Filled {
 public:
  explicit Filled(std::int64_t left, Batch plan = {}) : plan(std::move(plan)), left(left) {}

  void add(Sequence& sequence, std::int64_t tokens) {
    tokens = std::min(tokens, left);
    if (!tokens) return;
    plan.emplace_back(&sequence, static_cast<Tokens>(tokens));
    left -= tokens;
  }

  Batch plan;
  std::int64_t left;
};

class PrefillFirst final : public Policy {
 public:
  Batch plan(const State& state) override;
  bool keeps(bool is_full) override { return is_full; }
};

// Sarathi and its orders of waiting requests: of arrival, by length, or by deadline.
class OneChunk final : public Policy {
 public:
  enum class Order : std::uint8_t { kArrival, kPrompt, kOutput, kDeadline };

  // By length `first` are the tokens by which a request gets shorter in a second; by deadline the milliseconds until it, and `second` the
  // microseconds for each token.
  OneChunk(Order order, double first, double second) : order_(order), first_(first), second_(second) {}

  Batch plan(const State& state) override;
  bool keeps(bool is_full) override { return is_full; }

 private:
  double score(const Sequence& sequence, double now) const;
  Sequence* next(const State& state) const;

  Order order_;
  double first_;
  double second_;
};

// Orca and TensorRT-LLM. `reserves`: a request is admitted if its longest answer fits; else if its prompt fits now.
class WholePrompts final : public Policy {
 public:
  WholePrompts(bool reserves, bool chunked) : reserves_(reserves), chunked_(chunked) {}

  Batch plan(const State& state) override;
  bool keeps(bool) override { return true; }

 private:
  bool reserves_;
  bool chunked_;
};

class Sglang final : public Policy {
 public:
  Sglang(bool longest_match, double conservativeness);

  Batch plan(const State& state) override;
  bool keeps(bool) override { return false; }

 private:
  Batch prompts(const State& state) const;
  Batch tokens(const State& state);

  bool longest_match_;
  double first_ratio_;
  double ratio_;
};

}  // namespace astra::serving
