// Of what a network is made: its timing rules, and its routers, channels and lanes as they are added.
#pragma once

#include <cstdint>
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

// What a link of a folded dimension (see translations.hpp) does to the offset of a packet's destination in it.
enum class Fold : std::uint8_t {
  none,      // the dimension is not folded
  right,     // one less
  left,      // one more
  straight,  // none is left: the link leads there, or to the switch that does
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
  bool in_turn = true;               // an interface makes packets for its destinations in turn, not of the oldest message alone
  bool wait_for_tail_credit = true;  // a virtual channel is free again when the credit of the tail is back, not when the tail leaves
  bool same_cycle = false;     // an interface that is at work anyway makes a packet of a message in the cycle in which it is sent (Garnet)
  bool transit_first = false;  // combined: at an output, packets from interfaces wait for those from other routers
  bool maximal = false;        // combined: inputs that have lost ask for other outputs in the same cycle
  bool credit_parts = false;   // narrow links reorder parts of credits (Garnet)
  bool speculative = false;    // staged: heads ask for the switch while they ask for a virtual channel
  bool input_first = false;    // staged: separable input-first allocators in place of iSLIP
  bool cut_through = false;    // a head leaves only if the next buffer has room for the whole packet
  bool bubble = false;         // entering a ring takes two idle virtual channels
  // Staged: requests of heads that speculate have an allocator of their own, and get what the others leave.
  bool separate_speculation = false;
  int packet_flits = 1;
  std::int64_t packet_bytes = 1;
  std::int64_t flit_bytes = 1;
  bool full_last_packet = true;
  bool extrapolate = true;  // pass over periods in which the same happens again
  bool windows = true;      // a tile of routers runs by itself as long as links allow
  int threads = 1;          // that run tiles at the same time, at most;
  bool when_long = false;   // but not before the run has turned out to be long
  std::uint64_t seed = 1;
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
  Fold fold = Fold::none;
  bool source_port_varies = false;  // routers for which one of a folded dimension stands have this link at other outputs,
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

struct LaneSpec {
  int node = 0;
  int vnet = 0;
  int out = -1;  // channel
  int in = -1;   // channel
};

}  // namespace astra::packet
