// Classes of virtual channels that keep the routes of a dimension from waiting for each other in a circle. A packet passes classes upwards
// only, so they cut the circles that its routes form (Dally and Seitz 1987).
#pragma once

#include "routing/dimension_routes.hpp"
#include "routing/layout.hpp"

namespace astra::packet {

// How many classes a dimension needs: 1 where no rule uses them; with bubbles, rings need one. Gives links an order where they have none
// and need one. Throws std::invalid_argument where they are more than there can be.
int classes_needed(const Layout& layout, const DimensionRoutes& routes, int d);

}  // namespace astra::packet
