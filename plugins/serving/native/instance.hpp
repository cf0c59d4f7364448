// An instance and its clock: instance.ServingInstance and replica.Replica of Python, of one rank and one stage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "price.hpp"
#include "scheduler.hpp"
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

class Instance {
 public:
  Instance(Number number, std::unique_ptr<Scheduler> scheduler, std::shared_ptr<IterationTime> time, bool jumps)
      : scheduler(*scheduler), scheduler_(std::move(scheduler)), number_(number), time_(std::move(time)), jumps_(jumps) {}

  std::int64_t requests() const { return static_cast<std::int64_t>(scheduler.waiting.size() + scheduler.running.size()); }
  std::int64_t outstanding_tokens() const;
  bool is_busy() const { return is_busy_; }

  void add(Sequence& sequence) {
    sequence.instance = number_;
    scheduler.add(sequence);
  }

  // Plan and begin iterations. Returns when they end; nothing if there is nothing to do.
  std::optional<double> begin(double now);
  // Let a jump end with the iteration that is under way. Returns the new end; nothing if nothing changes.
  std::optional<double> interrupt(double now);
  // Commit the iterations that end now; `finished` lists the sequences that have ended.
  void end(double now, WeightedValues& gaps);

  Scheduler& scheduler;
  Totals totals;
  std::vector<Sequence*> finished;
  std::int32_t stamp = 0;  // counts the jumps that were cut, whose end comes earlier than announced

 private:
  void plan(double now);
  std::int64_t steady_iterations(double now) const;
  std::int64_t jump(const BatchShape& shape, double now) const;
  void end_one(double now, WeightedValues& gaps);
  void end_jump(double now, WeightedValues& gaps);
  double account_until(double now);
  void count(double busy, std::int64_t before);
  void mark_preempted(Sequence& sequence, double now);
  void mark_resumed(Sequence& sequence, double now);
  void mark_first_token(Sequence& sequence, double now);
  void account(Sequence& sequence, Parts& known);

  std::unique_ptr<Scheduler> scheduler_;
  Number number_;
  std::shared_ptr<IterationTime> time_;
  bool jumps_;
  Batch batch_;
  Iterations under_way_;
  bool is_busy_ = false;
  double accounted_ = 0.0;
};

}  // namespace astra::serving
