// The settings of a network's rules. Times in ticks unless stated otherwise, sizes in bytes, rates in bits per second.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "types.hpp"

namespace astra::roce {

enum class Algorithm : std::uint8_t { none, dcqcn, hpcc, timely, dctcp, pint, swift };
enum class Balancing : std::uint8_t { ecmp, spray_random, spray_round_robin, flowlet, adaptive, valiant, ugal };

// Sizes of packets. `gap_bytes` are on the wire only: preamble and gap between frames.
struct PacketSettings {
  std::uint32_t payload_bytes = 1000;
  std::uint32_t header_bytes = 58;
  std::uint32_t ack_bytes = 62;
  std::uint32_t shortest_ack_bytes = 64;
  std::uint32_t pause_bytes = 64;
  std::uint32_t gap_bytes = 20;
  std::uint32_t telemetry_bytes = 0;  // of INT, a time stamp, or PINT
};

// When a message starts and is complete.
struct MessageSettings {
  std::uint32_t start_rounds = 0;   // rounds of its instant after which a message starts
  bool complete_at_arrival = true;  // else when the sender has its last acknowledgement
  bool connections = true;          // messages of a queue of the system layer, or of a tag, share a queue pair
};

// The buffers of switches, with pauses (PFC) and marks (ECN).
struct BufferSettings {
  std::int64_t reserve_bytes = 4096;
  std::int64_t resume_margin_bytes = 3072;
  bool thresholds_wrap = false;  // where headrooms and reserves are more than the memory: thresholds mod 2^32, so that nothing is paused
  bool pauses = true;
  bool marking = true;
};

// How network interfaces limit and order their packets.
struct SendingSettings {
  bool windows = true;
  bool common_window = true;    // the longest bandwidth-delay product of all pairs, else that of the pair
  bool variable_window = true;  // in proportion to the rate
  bool pacing = true;
  bool acks_first = false;
  bool blocked_pairs_hold = false;  // a pair that cannot send counts where the interface sleeps until the next one may
};

// Acknowledgements and recovery from a loss.
struct RecoverySettings {
  std::int64_t chunk_bytes = 4000;
  std::int64_t ack_interval_bytes = 1;
  bool back_to_chunk = false;
  Tick nack_gap = 500'000'000;
  Tick retransmission = 0;   // 0: there is no timeout
  bool slow_restart = true;  // a loss halves the bytes in flight, a timeout leaves one packet; timeouts in a row double, at random
  bool out_of_order = false;
};

// How packets are spread over routes.
struct RoutingSettings {
  Balancing balancing = Balancing::ecmp;
  // Packets may go through another switch first.
  bool goes_around() const { return balancing == Balancing::valiant || balancing == Balancing::ugal; }
  Tick flowlet_gap = 0;
};

// Common settings of several algorithms of congestion control.
struct RateSettings {
  std::int64_t least_rate = 100'000'000;
  std::int64_t rate_step = 0;        // additive increase
  std::int64_t large_rate_step = 0;  // hyper increase
  double gain = 1.0 / 256;
};

// DCQCN.
struct DcqcnSettings {
  Tick alpha_interval = 0;
  Tick decrease_interval = 0;
  Tick increase_interval = 0;
  Tick tick_after_decrease = 0;  // one nanosecond: a decrease comes after the update of alpha of its instant
  std::uint32_t fast_recovery = 1;
  bool clamp_target = false;
};

// HPCC.
struct HpccSettings {
  double target_utilisation = 0.95;
  std::uint32_t stages = 0;
  std::uint32_t telemetry_unit = 1;
  bool fast_reaction = true;
  bool rate_of_hop = false;
  bool sampled_feedback = false;
  bool divides_by_window = false;  // also if there is none: the result of a division by 0 counts
};

// HPCC-PINT.
struct PintSettings {
  std::uint64_t pint_rtt_ns = 0;
  double pint_base = 1.05;
  double pint_share = 1.0;
};

// DCTCP.
struct DctcpSettings {
  std::int64_t dctcp_step = 1'000'000'000;
};

// TIMELY.
struct TimelySettings {
  double timely_weight = 0.875;
  double timely_decrease = 0.8;
  Tick timely_low = 0;
  Tick timely_high = 0;
  Tick timely_round = 0;
};

// Swift.
struct SwiftSettings {
  Tick swift_base = 0;
  Tick swift_hop = 0;
  Tick swift_range = 0;
  double swift_smallest_window = 0.1;
  double swift_largest_window = 100;
  double swift_increase = 1.0;
  double swift_decrease = 0.8;
  double swift_largest_decrease = 0.5;
};

// Congestion control: the algorithm, and the settings of each.
struct CongestionSettings : RateSettings, DcqcnSettings, HpccSettings, PintSettings, DctcpSettings, TimelySettings, SwiftSettings {
  Algorithm algorithm = Algorithm::none;
};

struct Settings : PacketSettings, MessageSettings, BufferSettings, SendingSettings, RecoverySettings, RoutingSettings, CongestionSettings {
  Tick ticks_per_ns = 1000;
  std::uint64_t seed = 1;
  bool extrapolate = true;  // play back known periods
};

// A link, one way, as in the input.
struct LinkSpec {
  NodeId source;
  NodeId target;
  std::int64_t rate;
  Tick delay;
  double error_rate;
  std::int64_t mark_from = 0;  // bytes in a queue: kmin and kmax of the port, and the probability at kmax
  std::int64_t mark_all = 0;
  double mark_share = 0;
  std::int64_t headroom = 0;  // bytes that the node it enters reserves for data on the wire
  int cost = 1;               // routes have the least sum of these
  int dimension = 0;          // of the platform
};

// A dimension of the platform, for routes that go by destinations: how its NPUs are numbered, and where they spread over paths of equal
// cost, the ends of the links of a group and the turn of each position.
struct DimensionPlan {
  std::uint32_t stride = 1;
  std::uint32_t size = 1;
  std::uint32_t nodes = 1;  // of a group
  std::vector<std::pair<int, int>> ends;
  std::vector<std::pair<int, int>> destination_order;  // position and turn
};

// Two nodes whose links fail at a time.
struct Failure {
  Tick time;
  NodeId one;
  NodeId other;
};

// Nodes 0 to npus - 1 are NPUs, the others switches. `ids` seed the hashes of routes; paths of equal cost go by `way_order`.
struct Plan {
  std::uint32_t npus = 0;
  std::uint32_t nodes = 0;
  std::vector<LinkSpec> links;
  std::vector<std::uint32_t> reverse;  // of each link the one back
  std::vector<std::uint32_t> ids;
  std::vector<std::int64_t> memory;      // bytes of each node that is a switch
  std::vector<std::uint32_t> addresses;  // of each NPU
  bool descending_order = false;
  std::vector<bool> preferred;  // nodes: of paths of equal cost only those over such a node count, if there are any
  std::vector<Failure> failures;
  // With one way for each destination: of several equal ones that of the lowest dimension, and there the one whose turn it is.
  std::vector<DimensionPlan> dimensions;   // none: all paths of equal cost count
  std::vector<std::uint32_t> places;       // of nodes: of a switch in a group of its dimension; of others (within an NPU) that of the NPU
  std::vector<bool> is_switch;             // of nodes: whether it is such a switch
  std::vector<std::vector<LinkId>> named;  // by node and NPU, if topologies name routes: the ports; none: shortest paths
  std::vector<NodeId> middles;             // switches through which packets may go around (valiant, ugal)
};

}  // namespace astra::roce
