// An instance: a scheduler, its cache, and the effects of its iterations on requests: instance.ServingInstance of Python.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "scheduler.hpp"
#include "speculation.hpp"
#include "weighted_values.hpp"

namespace astra::serving {

struct Totals {
  std::int64_t iterations = 0;
  double busy_s = 0.0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  double kv_block_s = 0.0;
  std::int64_t peak_blocks = 0;
  Parts parts{};
  std::int64_t preemptions = 0;
};

// `count` iterations from `start` on that take the parts `first` to `last` each.
struct Iterations {
  double start = 0.0;
  std::int64_t count = 0;
  Parts first{};
  Parts last{};

  double elapsed(std::int64_t iterations) const;
  Parts parts() const;
  // The number of iterations that have begun by a moment: at least one.
  std::int64_t until(double now) const;
};

enum class Role : std::uint8_t { kBoth, kPrefill, kDecode };

// What an instance is in its fleet.
struct Place {
  Number number = 0;
  Number pool = 0;
  Number model = 0;
  Role role = Role::kBoth;
};

class Instance {
 public:
  // `speculation`: the outcomes of drafts; none: there are no drafts.
  Instance(Place place, std::unique_ptr<Scheduler> scheduler, std::shared_ptr<Speculation> speculation)
      : scheduler(*scheduler), place(place), scheduler_(std::move(scheduler)), speculation_(std::move(speculation)) {}

  Number number() const { return place.number; }
  std::int64_t requests() const { return static_cast<std::int64_t>(scheduler.waiting.size() + scheduler.running.size()); }
  std::int64_t outstanding_tokens() const;
  const Batch& batch() const { return batch_; }
  bool is_busy() const { return is_busy_; }
  const Iterations& under_way() const { return under_way_; }

  void add(Sequence& sequence) {
    sequence.instance = place.number;
    scheduler.add(sequence);
  }

  // Plan an iteration, and record its effects on requests.
  void plan(double now);
  // Iterations in which the plan stays as it is; nothing: for ever, since there is none.
  std::optional<std::int64_t> steady_iterations(double now) const;
  void begin(const Iterations& iterations);
  // Give the sequences of a jump the blocks that they need for its iterations.
  void reserve(std::int64_t count);
  // Let a jump end after `count` iterations.
  void cut(std::int64_t count);
  // Commit the iterations that end now; `finished` and `first_tokens` list sequences that have ended, or got their first token.
  void end(double now, WeightedValues& gaps);

  Scheduler& scheduler;
  const Place place;
  Totals totals;
  std::vector<Sequence*> finished;
  std::vector<Sequence*> first_tokens;
  std::vector<Sequence*> gave_way;  // preempted by the last plan
  std::deque<Number> incoming;      // requests from other instances that wait for blocks
  std::int64_t coming = 0;          // requests on their way from other instances, or waiting for blocks

 private:
  void end_one(double now, WeightedValues& gaps);
  void end_jump(double now, WeightedValues& gaps);
  void verify(Sequence& sequence, WeightedValues& gaps);
  double account_until(double now);
  void count(double busy, std::int64_t before);
  void mark_preempted(Sequence& sequence, double now);
  void mark_resumed(Sequence& sequence, double now);
  void mark_first_token(Sequence& sequence, double now);
  void account(Sequence& sequence, Parts& known);

  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<Speculation> speculation_;
  Batch batch_;
  Iterations under_way_;
  bool is_busy_ = false;
  double accounted_ = 0.0;
};

}  // namespace astra::serving
