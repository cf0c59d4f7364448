#include "quotient/alike_routes.hpp"

namespace astra::packet {

bool route_is_alike(const Shape& shape, int source, int destination, int d) {
  const int offset = shape.routes.addresses().position(destination, d);
  if (!shape.routes.dimension(d).is_collapsed() || offset == 0) return true;
  if (shape.routes.dimension(d).quotient_channel(at(shape.node_router, source), offset) < 0) return false;
  const bool neighbour = offset == 1 || offset == at(shape.sizes, d) - 1;
  // With classes, who goes further crosses the dateline, or does not.
  return at(shape.routes.vc_classes(), d) == 1 || (neighbour && shape.rules.vc_classes() == VcClasses::at_crossing);
}

bool routes_are_alike(const Shape& shape, int source, int destination, int vnet) {
  const int r = at(shape.node_router, source);
  bool outputs_vary = false;
  int crossed = 0;
  for (int d = 0; d < count_of(shape.sizes); ++d) {
    const int offset = shape.routes.addresses().position(destination, d);
    if (offset == at(at(shape.router, r).coordinates, d)) continue;
    ++crossed;
    if (!route_is_alike(shape, source, destination, d)) return false;
    if (shape.routes.dimension(d).is_collapsed())
      outputs_vary = outputs_vary || at(shape.channel, shape.routes.dimension(d).quotient_channel(r, offset)).source_port_varies;
  }
  // Injection ports are chosen by the number of an output: where that varies, those of other dimensions would share other injection ports.
  return crossed == 1 || (crossed > 1 && (!outputs_vary || shape.injection_ports_of(source, vnet).count == 1));
}

}  // namespace astra::packet
