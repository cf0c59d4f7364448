// Dependencies between channels: the ones a packet holds while it waits for another. Routes whose dependencies form a circle can deadlock.

#include <algorithm>
#include <utility>
#include <vector>

#include "network/shape.hpp"

namespace astra::packet {

// Follows the packets of every node and virtual network from all interfaces on, with every choice that routers have.
std::vector<Dependency> dependencies(const Shape& shape) {
  std::vector<Dependency> result;
  for (int node = 0; node < shape.nodes(); ++node) {
    for (int vnet = 0; vnet < shape.rules.vnets; ++vnet) {
      std::vector<std::pair<int, int>> open;  // channel, class
      std::vector<bool> seen(shape.channel.size() * 256, false);
      auto take = [&](int c, int vc_class) {
        const std::size_t place = index(c * 256 + vc_class);
        if (!seen[place]) open.emplace_back(c, vc_class);
        seen[place] = true;
      };
      for (int source = 0; source < shape.nodes(); ++source) {
        const Shape::InjectionPorts& injection_ports = shape.injection_ports_of(source, vnet);
        for (int l = injection_ports.first; l < injection_ports.end(); ++l) take(at(shape.injection_port, l).out, 0);
      }
      while (!open.empty()) {
        const auto [in, before] = open.back();
        open.pop_back();
        const int r = at(shape.channel, in).sink;
        const int d = shape.routes.differing_dimension(r, node);
        if (d < 0) continue;
        shape.routes.dimension(d).each_way(r, at(at(shape.router, at(shape.node_router, node)).coordinates, d),
                                           [&, in = in, before = before](int out) {
                                             const ChannelSpec& way = at(shape.channel, out);
                                             if (vnet < way.first_vnet || vnet >= way.first_vnet + way.vnets) return;
                                             const int after = shape.next_class(in, out, node, before);
                                             if (at(shape.channel, in).dimension >= 0) {
                                               const auto [first, end] = shape.vcs_of(in, vnet, before);
                                               const auto [next_first, next_end] = shape.vcs_of(out, vnet, after);
                                               result.push_back({in, first, end, out, next_first, next_end});
                                             }
                                             take(out, after);
                                           });
      }
      std::sort(result.begin(), result.end());
      result.erase(std::unique(result.begin(), result.end()), result.end());
    }
  }
  return result;
}

}  // namespace astra::packet
