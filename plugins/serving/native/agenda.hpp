// The events of a fleet in order of time, and the clock of its replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "replica.hpp"

namespace astra::serving {

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

class Agenda {
 public:
  double now() const { return now_; }
  std::int64_t events() const { return events_; }
  bool is_empty() const { return queue_.empty(); }
  // When the next event happens; nothing if only starts and decisions of autoscaling are left.
  std::optional<double> next() const { return going_on_ ? std::optional(queue_.top().at) : std::nullopt; }

  void push(double at, Kind kind, std::int64_t what, std::int32_t stamp = 0);
  // Let the next event happen.
  Event pop();

  void add_replica(std::vector<Instance*> instances, std::shared_ptr<IterationTime> time, bool jumps);
  Replica& replica(std::size_t number) { return replicas_[number]; }
  // Whether a replica that was woken is free to begin iterations.
  bool may_begin(std::size_t number);
  // Note when the iterations of a replica end.
  void ends(std::size_t number, std::optional<double> end);
  // Let a replica begin iterations when all else has happened at this moment.
  void wake(std::size_t number);
  // Let an instance begin an iteration if it does none.
  void wake(const Instance& instance);
  // Begin an iteration for a sequence that an instance has got, or let a jump end for it.
  void got(const Instance& instance);
  // Let a jump of an instance end with the iteration that is under way.
  void cut(const Instance& instance);

 private:
  std::size_t number_of(const Instance& instance) const { return replica_of_[static_cast<std::size_t>(instance.number())]; }

  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::int64_t going_on_ = 0;  // events that are to happen but for starts and decisions of autoscaling
  std::int64_t pushed_ = 0;
  std::int64_t events_ = 0;
  double now_ = 0.0;
  std::vector<Replica> replicas_;
  std::vector<std::size_t> replica_of_;
  std::vector<char> is_woken_;
};

}  // namespace astra::serving
