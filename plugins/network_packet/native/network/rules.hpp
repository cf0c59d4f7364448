// The parts of a network: its timing rules, and its routers, channels and injection ports as they are added.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"

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
  first,     // of several shortest paths, always the same
  random,    // a random one
  adaptive,  // the one with most free credits
};

// The effect of a link of a collapsed dimension (see automorphisms.hpp) on the offset of a packet's destination in it.
enum class OffsetMap : std::uint8_t {
  none,      // the dimension is not collapsed
  right,     // one less
  left,      // one more
  straight,  // none is left: the link leads there, or to the switch that does
};

enum class Preset { standard, garnet, booksim };
enum class Arbitration { round_robin, transit_first };
enum class Matching { single, maximal };
enum class InterfaceOrder { round_robin, oldest };
enum class FlowControl { wormhole, cut_through };
enum class Routing { dimension_order, adaptive };
enum class DeadlockFreedom { none, dateline, bubble };
enum class SpeculativeAllocator { shared, separate };
enum class Allocator { islip, separable_input_first };

// How routers work: options with the values of the preset.
struct RouterRules {
  Allocation allocation;
  Arbitration arbitration;  // combined
  Matching matching;        // combined
  FlowControl flow_control;
  Routing routing;
  DeadlockFreedom deadlock_freedom;
  bool wait_for_tail_credit;  // staged
  bool speculative;           // staged: heads ask for the switch while they ask for a virtual channel
  SpeculativeAllocator speculative_allocator;
  Allocator allocator;  // staged
  int buffers;          // flits of a virtual channel
  int router_latency;   // combined: cycles from arrival to the link
  int routing_delay;    // staged: cycles of route computation
  int credit_delay;     // cycles in which a router handles a credit
  int input_speedup;
};

// How messages are cut into packets and flits, and interfaces' rules for it: options, and the platform's additions.
struct InterfaceRules {
  Preset preset;
  InterfaceOrder interface_order;
  std::int64_t packet_bytes;
  std::int64_t flit_bytes;
  bool full_last_packet;
  std::int64_t clock_ps;
  int vnets;
  int vcs;                  // virtual channels of each virtual network; `finish` of a shape sets it
  bool serialized_credits;  // links are those of Garnet's topologies: one way, and narrow ones reorder parts of credits
};

// How a network is simulated, which changes no answer but for the seed of random routes.
struct RunRules {
  bool extrapolate;  // skip periods in which the same happens again
  bool windows;      // a tile of routers runs by itself as long as links allow
  std::uint64_t seed;
  int threads;     // that run tiles at the same time, at most;
  bool when_long;  // but not before the run has turned out to be long
};

// All rules, and values derived from them. Defaults are those of the options class alone.
struct Rules : RouterRules, InterfaceRules, RunRules {
  bool staged() const { return allocation == Allocation::staged; }
  // On a one-way ring, choosing a half of the virtual channels at entry would not break the circle of waiting.
  VcClasses vc_classes() const {
    if (deadlock_freedom != DeadlockFreedom::dateline) return VcClasses::none;
    return staged() && !serialized_credits ? VcClasses::at_entry : VcClasses::at_crossing;
  }
  RouteChoice choice() const {
    if (routing == Routing::adaptive) return RouteChoice::adaptive;
    return staged() ? RouteChoice::random : RouteChoice::first;
  }
  int packet_flits() const { return narrow<int>((packet_bytes + flit_bytes - 1) / flit_bytes); }
  // Cycles from switch allocation to the link.
  int switch_traversal() const { return staged() ? 2 : 1; }
  int interface_credit_delay() const { return staged() ? 0 : 1; }
  // An interface gives packets to all idle virtual channels, not only to one.
  bool queue_ahead() const { return !staged(); }
  // An interface makes packets for its destinations in turn, not of the oldest message alone.
  bool in_turn() const { return interface_order == InterfaceOrder::round_robin; }
  // At an output, packets from interfaces wait for those from other routers.
  bool transit_first() const { return arbitration == Arbitration::transit_first; }
  // Inputs that have lost ask for other outputs in the same cycle.
  bool maximal() const { return matching == Matching::maximal; }
  // A virtual channel is free again when the credit of the tail is back, not when the tail leaves.
  bool waits_for_tail_credit() const { return !staged() || wait_for_tail_credit; }
  // An interface that is at work anyway makes a packet of a message in the cycle in which it is sent.
  bool same_cycle() const { return preset == Preset::garnet; }
  // Requests of heads that speculate have an allocator of their own, and get resources that the others leave.
  bool separate_speculation() const { return speculative_allocator == SpeculativeAllocator::separate; }
  // Separable input-first allocators in place of iSLIP.
  bool input_first() const { return allocator == Allocator::separable_input_first; }
  // A head leaves only if the next buffer has room for the whole packet.
  bool cut_through() const { return flow_control == FlowControl::cut_through; }
  // Entering a ring takes two idle virtual channels.
  bool bubble() const { return deadlock_freedom == DeadlockFreedom::bubble; }
};

// A span of time: whole cycles, and picoseconds less than a cycle.
struct Span {
  Cycle cycles = 0;
  std::int64_t ps = 0;

  double in_cycles(std::int64_t clock_ps) const { return real(cycles) + real(ps) / real(clock_ps); }
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
  OffsetMap offset_map = OffsetMap::none;
  bool source_port_varies = false;  // routers that one of a collapsed dimension represents have this link at other outputs,
  bool sink_port_varies = false;    // or inputs
};

struct RouterSpec {
  std::vector<int> inputs;   // channels
  std::vector<int> outputs;  // channels
  int input_ports = 0;       // ports that round-robin pointers pass
  int output_ports = 0;
  std::vector<int> coordinates;  // -1: has no position in the dimension (a switch)
  std::vector<int> spray;        // outputs used in turn for packets that are not at their destination
};

struct InjectionPortSpec {
  int node = 0;
  int vnet = 0;
  int out = -1;  // channel
  int in = -1;   // channel
};

}  // namespace astra::packet
