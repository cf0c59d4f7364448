// For how many cycles a tile of neighbouring routers can run by itself, while its state is in the cache.
//
// A unit's actions are seen behind a link when that link's latency is over, and not before. So in a window that is no longer than the least
// latency of a link between routers, no tile can see the others' actions in it, and each may run the whole window at once. The answers are
// those of running all tiles cycle by cycle. Whoever sends messages wants to know of an arrival before the next cycle is run, so a window
// ends where a message could arrive (see Messages::soonest_arrival).
#pragma once

#include <algorithm>

#include "base/flit.hpp"
#include "base/neighbour.hpp"
#include "network/shape.hpp"

namespace astra::packet {

class Windows {
 public:
  explicit Windows(const Shape& shape);

  // Cycles of a window at most; 1 where routers have clocks of their own or the order of units in a cycle matters (Garnet's narrow links),
  // and in quotient networks, which may have to stop in each cycle.
  Cycle length() const { return length_; }
  // Routers of a tile: all where windows would be too short to be worth it.
  int routers_of_tile() const { return routers_of_tile_; }
  // The least number of cycles from when a message's last flit has left the interface to its arrival. No window is longer than that.
  Cycle follow(int source, int destination, int vnet);

 private:
  int least_hops(int source, int destination, int vnet) const;

  Neighbour<const Shape> shape_;
  bool tiles_ = false;  // there are several
  int routers_of_tile_;
  Cycle length_ = 1;
  Cycle link_ = 0;       // least cycles from one router to the next,
  Cycle interface_ = 0;  // and in and out of the network
  bool one_way_ = true;  // packets have no choice of ways
};

}  // namespace astra::packet
