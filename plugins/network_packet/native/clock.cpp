#include "clock.hpp"

namespace astra::packet {

// Out of line: only networks with clocks of their own for routers come here.
Cycle Clock::later_edge(int unit, Cycle time) const {
  const Cycle divider = dividers_[unit];
  return (time + divider - 1) / divider * divider;
}

}  // namespace astra::packet
