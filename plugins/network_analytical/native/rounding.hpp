// How times become whole numbers: astra_sim_network_analytical.rounding, in C++.
#pragma once

#include <cmath>

namespace astra::analytical {

enum class Rounding { nanosecond, nanosecond_sum, picosecond };

// Picoseconds of a message, a whole number: latency of links, time of transfer, latency of network interfaces and of a router, in
// nanoseconds.
inline double delay_ps(Rounding rounding, double links_ns, double transfer_ns, double interfaces_ns = 0, double router_ns = 0) {
  if (rounding == Rounding::nanosecond) {
    double delay = std::trunc(links_ns);
    delay = std::trunc(delay + transfer_ns);
    delay = std::trunc(delay + interfaces_ns);
    return std::trunc(delay + router_ns) * 1000;
  }
  const double total = links_ns + interfaces_ns + router_ns + transfer_ns;
  return rounding == Rounding::nanosecond_sum ? std::trunc(total) * 1000 : std::nearbyint(total * 1000);
}

// Delays from here on are not exact in floating point.
inline constexpr double longest_ps = 9007199254740992.0;

}  // namespace astra::analytical
