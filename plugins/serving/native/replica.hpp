// Instances that begin and end iterations together, and their clock: replica.Replica of Python, of one stage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "instance.hpp"
#include "price.hpp"

namespace astra::serving {

class Replica {
 public:
  Replica(std::vector<Instance*> instances, std::shared_ptr<IterationTime> time, bool jumps)
      : instances(std::move(instances)), time_(std::move(time)), jumps_(jumps) {}

  bool is_busy() const { return instances.front()->is_busy(); }
  // Plan and begin iterations. Returns when they end; nothing if there is nothing to do.
  std::optional<double> begin(double now);
  // Let a jump end with the iteration that is under way, for a request that an instance has just got. Returns the new end; nothing if
  // nothing changes.
  std::optional<double> interrupt(const Instance& instance, double now);
  // Let a jump end with the iteration that is under way. Returns the new end; nothing if nothing changes.
  std::optional<double> cut(double now);

  std::vector<Instance*> instances;
  std::int32_t stamp = 0;  // counts the jumps that were cut, whose end comes earlier than announced

 private:
  std::int64_t jump(double now) const;
  void price(std::int64_t later, std::vector<Parts>& parts);

  std::shared_ptr<IterationTime> time_;
  bool jumps_;
  std::vector<BatchShape> shapes_;
  std::vector<BatchShape> later_;
  std::vector<Parts> first_;
  std::vector<Parts> last_;
};

}  // namespace astra::serving
