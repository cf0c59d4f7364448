// Messages that nothing can move any more, and why.
#pragma once

#include <stdexcept>
#include <string>

#include "parts.hpp"

namespace astra::roce {

// Nothing can move any more, and messages are under way.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The wait cycle of a network in which nothing moves: a line about it, and then one for each link of a circle of pauses, or each
// message.
std::string explain_deadlock(const Parts& parts);

}  // namespace astra::roce
