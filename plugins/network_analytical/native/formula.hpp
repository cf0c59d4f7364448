// The delay formula of astra_sim_network_analytical.network, in C++: the same figures to the last digit.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "rounding.hpp"

namespace astra::analytical {

struct Dimension {
  std::int32_t size;
  std::vector<std::int32_t> hops;  // by distance (`size` entries), or by source and destination (`size` squared)
  double bandwidth;                // bytes per nanosecond for one message
  double link_latency_ns;
  double nic_latency_ns;
  double router_latency_ns;  // 0 if there is none
  double memory_latency_ns;
  double memory_bandwidth;
  double memory_scale;
};

class Formula {
 public:
  // `lowest`: of several dimensions in which the ends of a message differ, the lowest counts, not the highest.
  Formula(std::vector<Dimension> dimensions, Rounding rounding, bool lowest)
      : dimensions_(std::move(dimensions)), rounding_(rounding), lowest_(lowest) {
    for (const Dimension& dimension : dimensions_) npus_ *= dimension.size;
  }

  std::int64_t npus() const { return npus_; }

  // Picoseconds of a message, or -1 if its delay does not fit.
  std::int64_t delay(std::int32_t source, std::int32_t destination, std::int64_t bytes) const {
    if (source < 0 || destination < 0 || source >= npus_ || destination >= npus_ || source == destination || bytes < 0) return -1;
    std::int64_t delay = -1, stride = 1;
    for (const Dimension& d : dimensions_) {
      const auto a = static_cast<std::int32_t>(source / stride % d.size), b = static_cast<std::int32_t>(destination / stride % d.size);
      stride *= d.size;
      if (a == b) continue;
      delay = picoseconds(d, hops(d, a, b), static_cast<double>(bytes));
      if (lowest_) break;
    }
    return delay;
  }

 private:
  static std::int32_t hops(const Dimension& d, std::int32_t a, std::int32_t b) {
    const auto size = static_cast<std::size_t>(d.size);
    if (d.hops.size() == size) return d.hops[static_cast<std::size_t>(b >= a ? b - a : b - a + d.size)];
    return d.hops[static_cast<std::size_t>(a) * size + static_cast<std::size_t>(b)];
  }

  std::int64_t picoseconds(const Dimension& d, std::int32_t hops, double bytes) const {
    double delay = delay_ps(rounding_, hops * d.link_latency_ns, bytes / d.bandwidth, 2 * d.nic_latency_ns, d.router_latency_ns);
    const double memory = std::nearbyint((d.memory_latency_ns + bytes / d.memory_bandwidth) * d.memory_scale * 1000);
    delay = std::fmax(delay, memory);
    // Larger numbers are exact in Python only, which is asked instead.
    return delay < longest_ps ? static_cast<std::int64_t>(delay) : -1;
  }

  std::vector<Dimension> dimensions_;
  Rounding rounding_;
  bool lowest_;
  std::int64_t npus_ = 1;
};

}  // namespace astra::analytical
