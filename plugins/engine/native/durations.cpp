#include "durations.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "errors.hpp"

namespace astra::engine {

bool Ports::add(const std::vector<std::int64_t>& ports, std::size_t npus) {
  if (ports.size() != npus) invalid("ports that are not one for each NPU");
  for (const std::int64_t port : ports) {
    if (port < -1 || port >= narrow<std::int64_t>(npus)) invalid("port " + std::to_string(port));
  }
  port_of_ = ports;
  free_at_.assign(npus, 0);
  std::vector<std::int64_t> used;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(used), [](std::int64_t port) { return port >= 0; });
  std::sort(used.begin(), used.end());
  return std::adjacent_find(used.begin(), used.end()) != used.end();
}

Time Ports::use(NpuId npu, Time now, Time delay) {
  if (port_of_.empty() || port_of_[npu] < 0) return sum(now, delay);
  Time& free_at = at(free_at_, port_of_[npu]);
  return free_at = sum(std::max(now, free_at), delay);
}

Time TaskDurations::end_of(TaskId task, TaskKind kind, Time delay, Time now) {
  if (kind == TaskKind::access) return ports_.use(task.npu, now, delay);
  if (kind != TaskKind::compute) return sum(now, delay);
  const Time begin = processors_.free_from(task.npu, now);
  const Time duration = asks_compute_ ? host_.compute(task.npu, task.number, begin) : delay;
  return processors_.compute(task.npu, begin, duration);
}

}  // namespace astra::engine
