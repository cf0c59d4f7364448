// When tasks end that take time by themselves: after their delay, a time that is asked for, or their use of a processor or a port.
#pragma once

#include <cstdint>
#include <vector>

#include "host.hpp"
#include "interface.hpp"
#include "processors.hpp"

namespace astra::engine {

// The ports through which NPUs access memory. NPUs that have the same port use it one after another.
class Ports {
 public:
  // Set the port of each NPU, or -1. Returns whether some NPUs share one. Raises std::invalid_argument.
  bool add(const std::vector<std::int64_t>& ports, std::size_t npus);
  // An NPU uses its port for so long, from now on or when it is free. Returns when that ends. Raises TooLong.
  Time use(NpuId npu, Time now, Time delay);

 private:
  std::vector<std::int64_t> port_of_;  // of each NPU, or nothing where there are none
  std::vector<Time> free_at_;
};

// How long tasks take that send and receive nothing, on the processors and ports of their NPUs.
class TaskDurations {
 public:
  TaskDurations(Processors& processors, Host& host, std::uint32_t npus) : processors_(processors), host_(host), npus_(npus) {}

  // Set the port of each NPU, or -1. Returns whether some NPUs share one. Raises std::invalid_argument.
  bool add_ports(const std::vector<std::int64_t>& ports) { return ports_.add(ports, npus_); }
  // Ask the host for the times of tasks that compute; without this their delays count.
  void set_compute_times() { asks_compute_ = true; }
  // When a task with a delay ends that begins now; it takes its NPU's processor or port until then. Raises TooLong.
  Time end_of(TaskId task, TaskKind kind, Time delay, Time now);

 private:
  Processors& processors_;
  Host& host_;
  std::uint32_t npus_;
  bool asks_compute_ = false;
  Ports ports_;
};

}  // namespace astra::engine
