// The part of a network that never changes: routers, interfaces, channels, routing tables and timing rules.
//
// It is put together router by router and channel by channel, then `make_routes` and `finish` are called, in this order. Domains of one
// form share it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "network/rules.hpp"
#include "routing/routing_tables.hpp"

namespace astra::packet {

// A channel's fields that are read in every cycle, in half a cache line.
struct Link {
  std::int32_t source = 0;  // units
  std::int32_t sink = 0;
  std::int32_t vc_base = 0;  // its first virtual channel, in arrays of all of them
  std::int32_t vcs = 0;      // its virtual channels
  std::int32_t delay = -1;   // cycles on the way; -1: the wires are narrower than a flit, and the flits before matter
  std::int16_t dimension = -1;
  std::uint16_t source_port = 0;
  std::uint16_t sink_port = 0;
  std::uint16_t sink_place = 0;  // its place among the inputs of its sink
  std::uint16_t first_vnet = 0;
  std::uint8_t classes : 8 = 1;  // into which the virtual channels of each virtual network are divided
  OffsetMap offset_map : 2 = OffsetMap::none;
  bool ring : 1 = false;
  bool source_port_varies : 1 = false;
  bool sink_port_varies : 1 = false;
};
static_assert(sizeof(Link) == 32);

// Virtual channels of one class and virtual network on a link, and those that a packet which holds one of them may want next. Past the
// last: `end_vc`.
struct Dependency {
  int channel = 0;
  int first_vc = 0;
  int end_vc = 0;
  int next_channel = 0;
  int next_first_vc = 0;
  int next_end_vc = 0;
  auto operator<=>(const Dependency&) const = default;
};

// Thrown by a router of a quotient network if not all routers that it represents would choose alike: the choice goes by numbers of ports,
// which vary among them along a dimension.
struct UnlikeChoice {
  int dimension;
};

class Shape;

// Units with clocks of their own, which act in every n-th cycle of the network only: routers, and injection ports with theirs.
struct Dividers {
  Dividers() = default;
  // By router.
  Dividers(const Shape& shape, const std::vector<int>& of_routers);

  std::vector<Cycle> of_unit;  // empty: all act in every cycle
  Cycle rhythm = 1;            // the least common multiple of these, or kNever where that is too much to count with
};

class Shape {
 public:
  Shape(Rules rules, std::vector<RouterSpec> routers, std::vector<int> dimension_sizes, std::vector<int> node_router);
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

  // Add a channel between routers (units) or an interface's pair of channels. All of them before `make_routes`. The injection ports of a
  // node and virtual network follow one another.
  int add_channel(const ChannelSpec& spec, std::string name);
  void add_injection_port(int node, int vnet, ChannelSpec to_router, ChannelSpec from_router);
  // Ports, routing tables, and the classes of virtual channels that the routes need. Throws std::invalid_argument if a node cannot reach
  // another.
  void make_routes();
  // By dimension, the classes of virtual channels that keep its routes from waiting for each other in a circle. With bubbles, rings need
  // one. Without any means against deadlock all are 1. After `make_routes`.
  const std::vector<int>& vc_classes() const { return routes.vc_classes(); }
  // With a number of virtual channels of each virtual network. Throws std::invalid_argument if the classes are more, or if a link or all
  // links together have too many.
  void finish(int vcs);

  int routers() const { return routers_; }
  int injection_ports() const { return count_of(injection_port); }
  int channels() const { return count_of(channel); }
  int units() const { return routers() + injection_ports(); }
  int nodes() const { return count_of(node_router); }
  bool is_router(int unit) const { return unit < routers(); }
  // Number of virtual channels of a channel. After `finish`.
  int vc_count(int c) const { return at(link, c).vcs; }
  // Place of one of them among those of all channels. After `finish`.
  int vc_index(int c, int vc) const { return at(link, c).vc_base + vc; }
  // A node's injection ports in a virtual network: the first, or -1, and how many.
  struct InjectionPorts {
    int first = -1;
    int count = 0;
    int end() const { return first + count; }
  };
  const InjectionPorts& injection_ports_of(int node, int vnet) const { return at(injection_ports_of_, node * rules.vnets + vnet); }
  // The injection port in which a message waits: each serves the links whose place among those of the router is its own, in turn.
  int injection_port_towards(int source, int destination, int vnet) const;
  // The next channel of the table's way in the first dimension in which router and node differ; -1: no way; the node's own interface, by
  // the channel `in` through which a packet has come, if they do not differ.
  int first_hop(int r, int in, int node, int vnet) const { return next_channel(routes.hop(r, node), r, in, node, vnet); }
  // The same, of the table's entry.
  int next_channel(std::uint16_t entry, int r, int in, int node, int vnet) const {
    const std::uint16_t place = entry & TableEntry::kPlace;
    if (place == TableEntry::kHere) return interface_at(in, routes.addresses().node_at(node), vnet);
    return place == TableEntry::kUnreachable ? -1 : at(outputs_, at(first_output_, r) + place);
  }
  // The address of a packet's destination when it has taken channel `out`.
  int next_address(int out, int address) const {
    const Link& way = at(link, out);
    return way.offset_map == OffsetMap::none ? address : routes.addresses().beyond(way.dimension, way.offset_map, address);
  }
  // The class of virtual channels in which a packet takes channel `out`, after it had class `before` on channel `in`.
  int next_class(int in, int out, int node, int before) const {
    return at(link, out).classes == 1 ? 0 : next_of_classes(in, out, node, before);
  }
  // First and past-the-last virtual channel of channel `c` for packets of a virtual network and class.
  [[gnu::always_inline]] std::pair<int, int> vcs_of(int c, int vnet, int vc_class) const {
    const Link& way = at(link, c);
    const int first = (vnet - way.first_vnet) * rules.vcs;
    if (way.classes == 1) return {first, first + rules.vcs};
    auto begin = [&](int k) { return first + (rules.vcs * k + way.classes - 1) / way.classes; };
    return {begin(vc_class), begin(vc_class + 1)};
  }

  Rules rules;
  std::vector<RouterSpec> router;
  std::vector<ChannelSpec> channel;
  std::vector<std::string> name;  // of channels
  std::vector<InjectionPortSpec> injection_port;
  std::vector<int> sizes;        // of dimensions
  std::vector<int> node_router;  // by node
  // Before `make_routes`, dimensions of it may be collapsed: routers of one position represent those of all. By router and offset of a
  // destination in the dimension, [router * size + offset]: the channel, or -1 if translates of the packet do not all take its
  // translates.
  RoutingTables routes;
  std::vector<Link> link;    // by channel
  std::vector<int> vc_base;  // by router and past the last: the first virtual channel of its inputs, which are adjacent
  int all_vcs = 0;
  Dividers dividers;  // set before `finish`
  Cycle horizon = 0;  // no effect of one unit on another is further ahead

 private:
  // The channel to a node's interface for packets that come in through channel `in`: that of the injection port which serves it.
  int interface_at(int in, int node, int vnet) const {
    const InjectionPorts& injection_ports = injection_ports_of(node, vnet);
    const int place = injection_ports.count == 1 ? 0 : at(link, in).sink_place % injection_ports.count;
    return at(injection_port, injection_ports.first + place).in;
  }
  // `next_class` where there are several.
  int next_of_classes(int in, int out, int node, int before) const;
  // Counts the ports of routers, and puts their inputs and outputs in order of port.
  void number_ports();
  // Fills `link`, and numbers virtual channels.
  void make_links();

  int routers_;
  std::vector<InjectionPorts> injection_ports_of_;  // [node * virtual networks + virtual network]
  std::vector<int> outputs_;                        // channels of all routers,
  std::vector<int> first_output_;                   // and by router the place of its first
};

// Links between routers on the way of the tables, or -1 if there is none.
int hops_between(const Shape& shape, int source, int destination, int vnet);

// All dependencies between virtual channels of links that some packet can bring about, sorted. If they form no circle, the network is
// free from deadlock (Dally and Seitz).
std::vector<Dependency> dependencies(const Shape& shape);

}  // namespace astra::packet
