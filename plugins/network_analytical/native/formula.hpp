// The delay formula of astra_sim_network_analytical.network, in C++: the same figures to the last digit.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace analytical {

struct Dimension {
  std::int32_t size;
  std::vector<std::int32_t> hops;  // by distance (`size` entries), or by source and destination (`size` squared)
  double bandwidth;                // bytes per nanosecond of what one message uses
  double link_latency_ns;
  double nic_latency_ns;
  double router_latency_ns;        // 0 where there is none
  double memory_latency_ns;
  double memory_bandwidth;
  double memory_scale;
};

class Formula {
 public:
  Formula(std::vector<Dimension> dimensions, bool whole_ns) : dimensions_(std::move(dimensions)), whole_ns_(whole_ns) {
    for (const Dimension& dimension : dimensions_) npus_ *= dimension.size;
  }

  std::int64_t npus() const { return npus_; }

  // Picoseconds of a message, or -1 where it has no delay that fits.
  std::int64_t delay(std::int32_t source, std::int32_t destination, std::int64_t bytes) const {
    if (source < 0 || destination < 0 || source >= npus_ || destination >= npus_ || source == destination || bytes < 0) return -1;
    std::int64_t stride = npus_;
    for (std::size_t index = dimensions_.size(); index-- > 0;) {
      const Dimension& d = dimensions_[index];
      stride /= d.size;
      const auto a = static_cast<std::int32_t>(source / stride % d.size), b = static_cast<std::int32_t>(destination / stride % d.size);
      if (a != b) return picoseconds(d, hops(d, a, b), static_cast<double>(bytes));
    }
    return -1;
  }

 private:
  static std::int32_t hops(const Dimension& d, std::int32_t a, std::int32_t b) {
    const auto size = static_cast<std::size_t>(d.size);
    if (d.hops.size() == size) return d.hops[static_cast<std::size_t>(b >= a ? b - a : b - a + d.size)];
    return d.hops[static_cast<std::size_t>(a) * size + static_cast<std::size_t>(b)];
  }

  std::int64_t picoseconds(const Dimension& d, std::int32_t hops, double bytes) const {
    double delay;
    if (whole_ns_) {
      delay = std::trunc(hops * d.link_latency_ns);
      delay = std::trunc(delay + bytes / d.bandwidth);
      delay = std::trunc(delay + 2 * d.nic_latency_ns);
      delay = std::trunc(delay + d.router_latency_ns) * 1000;
    } else {
      const double latency = hops * d.link_latency_ns + 2 * d.nic_latency_ns + d.router_latency_ns;
      delay = std::nearbyint((latency + bytes / d.bandwidth) * 1000);
    }
    const double memory = std::nearbyint((d.memory_latency_ns + bytes / d.memory_bandwidth) * d.memory_scale * 1000);
    delay = std::fmax(delay, memory);
    // Larger numbers are exact in Python only, which is asked instead.
    return delay < 9007199254740992.0 ? static_cast<std::int64_t>(delay) : -1;
  }

  std::vector<Dimension> dimensions_;
  bool whole_ns_;
  std::int64_t npus_ = 1;
};

}  // namespace analytical
