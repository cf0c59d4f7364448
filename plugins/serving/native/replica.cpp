#include "replica.hpp"

#include <algorithm>
#include <cstddef>

namespace astra::serving {

namespace {

constexpr std::int64_t kMinJump = 4;
constexpr std::int64_t kGrowth = 4;
constexpr std::int64_t kShortContext = 256;

}  // namespace

std::optional<double> Replica::begin(double now) {
  shapes_.clear();
  bool has_work = false;
  for (Instance* each : instances) {
    each->plan(now);
    has_work = has_work || !each->batch().empty();
    shapes_.push_back(shape_of(each->batch()));
  }
  if (!has_work) return std::nullopt;
  price(0, first_);
  const std::int64_t count = jumps_ ? jump(now) : 1;
  if (count > 1) price(count - 1, last_);
  const std::vector<Parts>& last = count > 1 ? last_ : first_;
  for (std::size_t rank = 0; rank < instances.size(); ++rank) instances[rank]->begin({now, count, first_[rank], last[rank]});
  return now + instances.front()->under_way().elapsed(count);
}

std::int64_t Replica::jump(double now) const {
  std::int64_t count = kShortContext;
  for (const BatchShape& shape : shapes_) count = std::max(count, static_cast<std::int64_t>(shape.kv_mean()));
  count /= kGrowth;
  for (const Instance* each : instances) count = std::min(count, each->steady_iterations(now).value_or(count));
  return count >= kMinJump ? count : 1;
}

void Replica::price(std::int64_t later, std::vector<Parts>& parts) {
  if (instances.size() == 1) {
    parts.assign(1, time_->step(shapes_.front().later(later)));
    return;
  }
  later_.clear();
  for (const BatchShape& shape : shapes_) later_.push_back(shape.later(later));
  time_->step_together(later_, parts);
}

std::optional<double> Replica::interrupt(const Instance& instance, double now) {
  return instance.scheduler.may_take_more() ? cut(now) : std::nullopt;
}

std::optional<double> Replica::cut(double now) {
  if (!is_busy()) return std::nullopt;
  const Iterations& current = instances.front()->under_way();
  if (current.count == 1) return std::nullopt;
  const std::int64_t count = current.until(now);
  for (Instance* each : instances) each->reserve(count);
  if (count == current.count) return std::nullopt;
  const double end = current.start + current.elapsed(count);
  for (Instance* each : instances) each->cut(count);
  ++stamp;
  return end;
}

}  // namespace astra::serving
