// The part of a network that never changes: routers, interfaces, channels, routing tables and timing rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flit.hpp"

namespace astra::packet {

// How a router gives away output virtual channels and its switch.
enum class Allocation {
    combined,  // a head gets a virtual channel together with the switch (Garnet)
    staged,    // route computation, virtual channel allocation and switch allocation, one after another (BookSim)
};

enum class VcClasses {
    none,
    at_crossing,  // a packet goes over to the upper half of the virtual channels when it crosses a dateline
    at_entry,     // it picks its half when it enters a dimension (BookSim)
};

enum class RouteChoice {
    first,        // of several shortest ways, always the one through the first port
    random_entry, // a random one
    adaptive,     // the one with most free credits
};

struct Rules {
    Allocation allocation = Allocation::combined;
    VcClasses vc_classes = VcClasses::none;
    RouteChoice choice = RouteChoice::first;
    std::int64_t clock_ps = 1000;
    int vnets = 1;
    int vcs = 1;      // virtual channels of each virtual network
    int buffers = 1;  // flits of a virtual channel
    int router_latency = 1;    // combined: cycles from arrival to the link
    int routing_delay = 1;     // staged: cycles of route computation
    int switch_traversal = 1;  // cycles from switch allocation to the link
    int credit_delay = 0;      // cycles in which a router handles a credit
    int interface_credit_delay = 0;
    int input_speedup = 1;
    int queue_ahead = 1;  // an interface gives packets to all idle virtual channels, not only to one
    bool wait_for_tail_credit = true;  // a virtual channel is free again when the credit of the tail is back, not when the tail leaves
    bool same_cycle = false;  // an interface that is at work anyway makes a packet of a message in the cycle in which it is sent (Garnet)
    bool credit_parts = false;  // narrow links reorder parts of credits (Garnet)
    bool speculative = false;          // staged: heads ask for the switch while they ask for a virtual channel
    bool input_first = false;          // staged: separable input-first allocators in place of iSLIP
    bool cut_through = false;          // a head leaves only if the next buffer has room for the whole packet
    bool bubble = false;               // entering a ring takes two idle virtual channels
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
    int source = 0;  // unit
    int sink = 0;    // unit
    int dimension = -1;  // -1: between an interface and a router
    Span latency;
    Span flit_time;       // on the wires; at most a cycle where the link is as wide as a flit
    int serializer = 0;   // cycles at each end of a narrow link
    int first_vnet = 0;
    int vnets = 1;
    bool ring = false;      // part of a ring of links
    bool dateline = false;  // the one at which the ring is thought to begin
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
    bool ring = false;
    bool dateline = false;
};

class Shape {
public:
    Shape(Rules rules, std::vector<RouterSpec> routers, std::vector<int> dimension_sizes, std::vector<int> node_router);

    // Add a channel between routers (units) or an interface's pair of channels. All of them before `finish`.
    int add_channel(const ChannelSpec& spec, std::string name);
    void add_lane(int node, int vnet, ChannelSpec to_router, ChannelSpec from_router);
    // By router: it and its lanes act in every so many-th cycle only. Before `finish`; without, in every one.
    void set_dividers(const std::vector<int>& of_routers);
    // Ports, routing tables. Throws std::invalid_argument if a node cannot be reached.
    void finish();

    int routers() const { return static_cast<int>(router.size()); }
    int lanes() const { return static_cast<int>(lane.size()); }
    int channels() const { return static_cast<int>(channel.size()); }
    int units() const { return routers() + lanes(); }
    int nodes() const { return static_cast<int>(node_router.size()); }
    bool is_router(int unit) const { return unit < routers(); }
    // Number of virtual channels of a channel.
    int vc_count(int c) const { return channel[static_cast<std::size_t>(c)].vnets * rules.vcs; }
    int lane_of(int node, int vnet) const { return lane_of_[static_cast<std::size_t>(node * rules.vnets + vnet)]; }

    // The next channel of the shortest way in the first dimension in which router and node differ; -1: no way; the node's own
    // interface if they do not differ.
    int first_hop(int at, int node, int vnet) const {
        const std::uint16_t place = hop(at, node) & kPlace;
        if (place == kHere) return lane[static_cast<std::size_t>(lane_of(node, vnet))].in;
        return place == kNoWay ? -1 : router[static_cast<std::size_t>(at)].outputs[place];
    }
    // All next channels of shortest ways in that dimension.
    std::vector<int> next_hops(int at, int node) const;
    // Whether there may be more than one.
    bool several_ways(int at, int node) const {
        return (hop(at, node) & kSeveral) != 0;
    }
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
    int all_words = 0;  // of bit sets of the virtual channels of each channel
    std::vector<Cycle> divider;  // by unit: it acts in every so many-th cycle; empty: all in every one
    Cycle rhythm = 1;            // the least common multiple of these, or kNever where that is too much to count with
    Cycle horizon = 0;  // no effect of one unit on another is further ahead

private:
    static constexpr std::uint16_t kSeveral = 0x8000;  // there are several next channels
    static constexpr std::uint16_t kPlace = 0x7fff;    // a place among the outputs of the router, or one of these
    static constexpr std::uint16_t kHere = 0x7fff;
    static constexpr std::uint16_t kNoWay = 0x7ffe;
    static constexpr std::size_t kMostHops = 1 << 16;

    // The entry of a router and a node in the table of their dimension.
    std::uint16_t look_up(int at, int node) const;
    std::uint16_t hop(int at, int node) const {
        return hop_.empty() ? look_up(at, node) : hop_[static_cast<std::size_t>(at) * node_router.size() + static_cast<std::size_t>(node)];
    }
    void number_ports();
    void make_links();
    void make_tables();
    void make_hops();
    int differing_dimension(int at, int node) const {
        const std::size_t count = sizes.size();
        const int* const here = &coordinate_[static_cast<std::size_t>(at) * count];
        const int* const there = &coordinate_[static_cast<std::size_t>(node_router[static_cast<std::size_t>(node)]) * count];
        for (std::size_t d = 0; d < count; ++d) {
            if (here[d] != there[d]) return static_cast<int>(d);
        }
        return -1;
    }

    std::vector<int> lane_of_;
    std::vector<int> coordinate_;       // [router * dimensions + dimension]
    std::vector<std::uint16_t> hop_;    // [router * nodes + node]: what look_up says; empty on large networks
    std::vector<std::vector<std::uint16_t>> table_;  // [dimension][router * size + coordinate]: place of a channel among the outputs
    std::vector<std::vector<int>> distance_;         // the same: links still to cross in the dimension
};

}  // namespace astra::packet
