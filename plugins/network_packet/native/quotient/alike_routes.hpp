// Whether all NPUs that one represents would send a message along routes that automorphisms take to each other.
#pragma once

#include "network/shape.hpp"

namespace astra::packet {

// Whether all translates of a message take translates of its route, of links and classes of virtual channels. A message to a node itself
// does not count as such.
bool routes_are_alike(const Shape& shape, int source, int destination, int vnet);
// The same for its part in one dimension, if that is collapsed.
bool route_is_alike(const Shape& shape, int source, int destination, int d);

}  // namespace astra::packet
