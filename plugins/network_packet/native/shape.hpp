// The part of a network that never changes: routers, interfaces, channels, routing tables and timing rules.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "flit.hpp"
#include "index.hpp"

namespace astra::packet {

// How a router gives away output virtual channels and its switch.
enum class Allocation {
  combined,  // a head gets a virtual channel together with the switch (Garnet)
  staged,    // route computation, virtual channel allocation and switch allocation, one after another (BookSim)
};

enum class VcClasses {
  none,
  at_crossing,  // a packet goes over to the next class of virtual channels when it takes a link that is not later in the order of links
  at_entry,     // on a ring of links both ways it picks its class when it enters the dimension (BookSim); elsewhere as at_crossing
};

enum class RouteChoice {
  first,     // of several shortest ways, always the same
  random,    // a random one
  adaptive,  // the one with most free credits
};

struct Rules {
  Allocation allocation = Allocation::combined;
  VcClasses vc_classes = VcClasses::none;
  RouteChoice choice = RouteChoice::first;
  std::int64_t clock_ps = 1000;
  int vnets = 1;
  int vcs = 1;               // virtual channels of each virtual network; `finish` sets it
  int buffers = 1;           // flits of a virtual channel
  int router_latency = 1;    // combined: cycles from arrival to the link
  int routing_delay = 1;     // staged: cycles of route computation
  int switch_traversal = 1;  // cycles from switch allocation to the link
  int credit_delay = 0;      // cycles in which a router handles a credit
  int interface_credit_delay = 0;
  int input_speedup = 1;
  int queue_ahead = 1;               // an interface gives packets to all idle virtual channels, not only to one
  bool wait_for_tail_credit = true;  // a virtual channel is free again when the credit of the tail is back, not when the tail leaves
  bool same_cycle = false;    // an interface that is at work anyway makes a packet of a message in the cycle in which it is sent (Garnet)
  bool credit_parts = false;  // narrow links reorder parts of credits (Garnet)
  bool speculative = false;   // staged: heads ask for the switch while they ask for a virtual channel
  bool input_first = false;   // staged: separable input-first allocators in place of iSLIP
  bool cut_through = false;   // a head leaves only if the next buffer has room for the whole packet
  bool bubble = false;        // entering a ring takes two idle virtual channels
  int packet_flits = 1;
  std::int64_t packet_bytes = 1;
  std::int64_t flit_bytes = 1;
  bool full_last_packet = true;
  bool extrapolate = true;  // pass over periods in which the same happens again
  std::uint64_t seed = 1;
};

// A span of time: whole cycles, and picoseconds less than a cycle.
struct Span {
  Cycle cycles = 0;
  std::int64_t ps = 0;
};

struct ChannelSpec {
  int source = 0;      // unit
  int sink = 0;        // unit
  int dimension = -1;  // -1: between an interface and a router
  Span latency;
  Span flit_time;      // on the wires; at most a cycle where the link is as wide as a flit
  int serializer = 0;  // cycles at each end of a narrow link
  int first_vnet = 0;
  int vnets = 1;
  int cost = 1;         // in routes: of several ways, the one whose costs add up to least is the shortest
  bool ring = false;    // part of a ring of links
  int order = -1;       // place in an order of the dimension's links which keeps their routes from deadlock; -1: none is given
  int source_port = 0;  // number among the outputs of its source, and the inputs of its sink: the order of round-robin pointers
  int sink_port = 0;
};

struct RouterSpec {
  std::vector<int> inputs;   // channels
  std::vector<int> outputs;  // channels
  int input_ports = 0;       // ports that round-robin pointers pass
  int output_ports = 0;
  std::vector<int> coordinates;  // -1: has no position in the dimension (a switch)
  std::vector<int> spray;        // outputs used in turn for packets that are not at their destination
};

struct LaneSpec {
  int node = 0;
  int vnet = 0;
  int out = -1;  // channel
  int in = -1;   // channel
};

// What is looked up of a channel in every cycle, in half a cache line.
struct Link {
  std::int32_t source = 0;  // units
  std::int32_t sink = 0;
  std::int32_t vc_base = 0;   // its first virtual channel, in arrays of all of them
  std::int32_t bit_base = 0;  // its first word, in bit sets of virtual channels
  std::int32_t delay = -1;    // cycles on the way; -1: the wires are narrower than a flit, and the flits before matter
  std::int16_t dimension = -1;
  std::uint16_t source_port = 0;
  std::uint16_t sink_port = 0;
  std::uint16_t sink_place = 0;  // its place among the inputs of its sink
  std::uint16_t first_vnet = 0;
  std::uint8_t classes = 1;  // into which the virtual channels of each virtual network are divided
  bool ring = false;
};

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

class Shape {
 public:
  Shape(Rules rules, std::vector<RouterSpec> routers, std::vector<int> dimension_sizes, std::vector<int> node_router);

  // Add a channel between routers (units) or an interface's pair of channels. All of them before `make_routes`. The lanes of a node and
  // virtual network follow one another.
  int add_channel(const ChannelSpec& spec, std::string name);
  void add_lane(int node, int vnet, ChannelSpec to_router, ChannelSpec from_router);
  // By router: it and its lanes act in every so many-th cycle only. Before `finish`; without, in every one.
  void set_dividers(const std::vector<int>& of_routers);
  // Ports, routing tables, and the classes of virtual channels that the routes need. Throws std::invalid_argument if a node cannot reach
  // another.
  void make_routes();
  // By dimension, the classes of virtual channels that keep its routes from waiting for each other in a circle. With bubbles, rings need
  // one. Without any means against deadlock all are 1. After `make_routes`.
  const std::vector<int>& vc_classes() const { return classes_; }
  // With so many virtual channels of each virtual network. Throws std::invalid_argument if the classes are more.
  void finish(int vcs);

  int routers() const { return static_cast<int>(router.size()); }
  int lanes() const { return static_cast<int>(lane.size()); }
  int channels() const { return static_cast<int>(channel.size()); }
  int units() const { return routers() + lanes(); }
  int nodes() const { return static_cast<int>(node_router.size()); }
  bool is_router(int unit) const { return unit < routers(); }
  // Number of virtual channels of a channel.
  int vc_count(int c) const { return at(channel, c).vnets * rules.vcs; }
  // Place of one of them among those of all channels. After `finish`.
  int vc_index(int c, int vc) const { return at(link, c).vc_base + vc; }
  // A node's lanes in a virtual network: the first, or -1, and how many.
  struct Lanes {
    int first = -1;
    int count = 0;
    int end() const { return first + count; }
  };
  const Lanes& lanes_of(int node, int vnet) const { return at(lanes_of_, node * rules.vnets + vnet); }
  // The lane in which a message waits: each serves the links whose place among those of the router is its own, in turn.
  int lane_towards(int source, int destination, int vnet) const;

  // The next channel of the table's way in the first dimension in which router and node differ; -1: no way; the node's own interface, by
  // the channel `in` through which a packet has come, if they do not differ.
  int first_hop(int r, int in, int node, int vnet) const {
    const std::uint16_t place = hop(r, node) & kPlace;
    if (place == kHere) return interface_at(in, node, vnet);
    return place == kNoWay ? -1 : at(router, r).outputs[place];
  }
  // All next channels of shortest ways in that dimension.
  std::vector<int> next_hops(int r, int node) const;
  // Whether there may be more than one.
  bool several_ways(int r, int node) const { return (hop(r, node) & kSeveral) != 0; }
  // The class of virtual channels in which a packet takes channel `out`, after it had class `before` on channel `in`.
  int next_class(int in, int out, int node, int before) const;
  // First and past-the-last virtual channel of channel `c` for packets of a virtual network and class.
  std::pair<int, int> vcs_of(int c, int vnet, int vc_class) const {
    const Link& way = at(link, c);
    const int first = (vnet - way.first_vnet) * rules.vcs;
    if (way.classes == 1) return {first, first + rules.vcs};
    auto begin = [&](int k) { return first + (rules.vcs * k + way.classes - 1) / way.classes; };
    return {begin(vc_class), begin(vc_class + 1)};
  }
  // All dependencies between virtual channels of links that some packet can bring about, sorted. If they form no circle, the network is
  // free from deadlock (Dally and Seitz).
  std::vector<Dependency> dependencies() const;
  int hops(int source, int destination, int vnet) const;

  Rules rules;
  std::vector<RouterSpec> router;
  std::vector<ChannelSpec> channel;
  std::vector<std::string> name;  // of channels
  std::vector<LaneSpec> lane;
  std::vector<int> sizes;        // of dimensions
  std::vector<int> node_router;  // by node
  std::vector<Link> link;        // by channel
  std::vector<int> vc_base;      // by router and past the last: the first virtual channel of its inputs, which stand together
  int all_vcs = 0;
  int all_words = 0;           // of bit sets of the virtual channels of each channel
  std::vector<Cycle> divider;  // by unit: it acts in every so many-th cycle; empty: all in every one
  Cycle rhythm = 1;            // the least common multiple of these, or kNever where that is too much to count with
  Cycle horizon = 0;           // no effect of one unit on another is further ahead

 private:
  friend class Balance;

  static constexpr std::uint16_t kSeveral = 0x8000;  // there are several next channels
  static constexpr std::uint16_t kPlace = 0x7fff;    // a place among the outputs of the router, or one of these
  static constexpr std::uint16_t kHere = 0x7fff;
  static constexpr std::uint16_t kNoWay = 0x7ffe;
  static constexpr std::size_t kMostHops = 1 << 16;

  // The entry of a router and a node in the table of their dimension.
  std::uint16_t look_up(int r, int node) const;
  std::uint16_t hop(int r, int node) const { return hop_.empty() ? look_up(r, node) : hop_[index(r) * node_router.size() + index(node)]; }
  int interface_at(int in, int node, int vnet) const {
    const Lanes& lanes = lanes_of(node, vnet);
    const int place = lanes.count == 1 ? 0 : at(link, in).sink_place % lanes.count;
    return at(lane, lanes.first + place).in;
  }
  void number_ports();
  void make_links();
  void make_tables();
  void make_hops();
  Cycle handling() const;
  // tables.cpp
  void measure_distances(int d);
  void check_ways(int d) const;
  std::vector<int> heights(int d) const;
  // Calls visit(place) for every output of a router, by place, that is on a shortest way to position `wanted` of a dimension.
  template <class Visit>
  void each_shortest(int d, int r, int wanted, Visit visit) const;
  std::vector<std::size_t> strides(int d, const std::vector<int>& height) const;
  // balance.cpp
  void balance(int d, std::vector<std::uint16_t>& table) const;
  // dependencies.cpp
  void make_classes();
  std::vector<std::vector<int>> followers(int d) const;
  void order_links(int d);
  int most_classes(int d) const;
  // Calls visit(channel) for every channel that a packet for position `wanted` of a dimension may take from router `at`.
  template <class Visit>
  void each_way(int d, int r, int wanted, Visit visit) const;
  int differing_dimension(int r, int node) const {
    const std::size_t count = sizes.size();
    const int* const here = &coordinate_[index(r) * count];
    const int* const there = &coordinate_[index(at(node_router, node)) * count];
    for (std::size_t d = 0; d < count; ++d) {
      if (here[d] != there[d]) return static_cast<int>(d);
    }
    return -1;
  }

  std::vector<Lanes> lanes_of_;                    // [node * virtual networks + virtual network]
  std::vector<int> classes_;                       // of virtual channels, by dimension
  std::vector<int> coordinate_;                    // [router * dimensions + dimension]
  std::vector<std::uint16_t> hop_;                 // [router * nodes + node]: what look_up says; empty on large networks
  std::vector<std::vector<std::uint16_t>> table_;  // [dimension][router * size + coordinate]: place of a channel among the outputs
  std::vector<std::vector<int>> distance_;         // the same: the cost of the links still to cross in the dimension, or -1
};

template <class Visit>
void Shape::each_shortest(int d, int r, int wanted, Visit visit) const {
  const int size = at(sizes, d);
  const std::vector<int>& distance = at(distance_, d);
  const int here = at(distance, r * size + wanted);
  if (here <= 0) return;
  const std::vector<int>& outputs = at(router, r).outputs;
  for (std::size_t place = 0; place < outputs.size(); ++place) {
    const ChannelSpec& spec = at(channel, outputs[place]);
    if (spec.dimension == d && at(distance, spec.sink * size + wanted) == here - spec.cost) visit(place);
  }
}

}  // namespace astra::packet
