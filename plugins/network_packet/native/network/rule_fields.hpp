// Which attributes of options classes fill which rules, and the names of choices.
#pragma once

#include <array>
#include <astra_sim/fields.hpp>
#include <tuple>

#include "network/rules.hpp"
#include "traffic/traffic.hpp"

namespace astra {

template <>
inline constexpr auto names<packet::Preset> = std::array{"default", "garnet", "booksim"};
template <>
inline constexpr auto names<packet::Allocation> = std::array{"combined", "staged"};
template <>
inline constexpr auto names<packet::Arbitration> = std::array{"round_robin", "transit_first"};
template <>
inline constexpr auto names<packet::Matching> = std::array{"single", "maximal"};
template <>
inline constexpr auto names<packet::InterfaceOrder> = std::array{"round_robin", "oldest"};
template <>
inline constexpr auto names<packet::FlowControl> = std::array{"wormhole", "cut_through"};
template <>
inline constexpr auto names<packet::Routing> = std::array{"dimension_order", "adaptive"};
template <>
inline constexpr auto names<packet::DeadlockFreedom> = std::array{"none", "dateline", "bubble"};
template <>
inline constexpr auto names<packet::SpeculativeAllocator> = std::array{"shared", "separate"};
template <>
inline constexpr auto names<packet::Allocator> = std::array{"islip", "separable_input_first"};
template <>
inline constexpr auto names<packet::OffsetMap> = std::array{"none", "right", "left", "straight"};

template <>
inline constexpr auto fields<packet::Rules> = std::tuple{
    ASTRA_FIELD(packet::Rules, preset),
    ASTRA_FIELD(packet::Rules, allocation),
    ASTRA_FIELD(packet::Rules, arbitration),
    ASTRA_FIELD(packet::Rules, matching),
    ASTRA_FIELD(packet::Rules, interface_order),
    ASTRA_FIELD(packet::Rules, flow_control),
    ASTRA_FIELD(packet::Rules, routing),
    ASTRA_FIELD(packet::Rules, deadlock_freedom),
    ASTRA_FIELD(packet::Rules, wait_for_tail_credit),
    ASTRA_FIELD(packet::Rules, speculative),
    ASTRA_FIELD(packet::Rules, speculative_allocator),
    ASTRA_FIELD(packet::Rules, allocator),
    ASTRA_FIELD(packet::Rules, buffers, 1, 1'000'000),
    ASTRA_FIELD(packet::Rules, router_latency, 1),
    ASTRA_FIELD(packet::Rules, routing_delay, 0),
    ASTRA_FIELD(packet::Rules, credit_delay, 0),
    ASTRA_FIELD(packet::Rules, input_speedup, 1),
    ASTRA_FIELD(packet::Rules, packet_bytes, 1),
    ASTRA_FIELD(packet::Rules, flit_bytes, 1),
    ASTRA_FIELD(packet::Rules, full_last_packet),
    ASTRA_FIELD(packet::Rules, extrapolate),
    ASTRA_FIELD(packet::Rules, windows),
    ASTRA_FIELD(packet::Rules, seed),
};

template <>
inline constexpr auto fields<packet::TrafficOptions> = std::tuple{
    ASTRA_FIELD(packet::TrafficOptions, packet_flits), ASTRA_FIELD(packet::TrafficOptions, warm_up),
    ASTRA_FIELD(packet::TrafficOptions, period),       ASTRA_FIELD(packet::TrafficOptions, periods),
    ASTRA_FIELD(packet::TrafficOptions, drain_limit),  ASTRA_FIELD(packet::TrafficOptions, seed),
    ASTRA_FIELD(packet::TrafficOptions, hot_share),    ASTRA_FIELD(packet::TrafficOptions, hot_node),
};

}  // namespace astra
