// The parts of a domain, in the order in which they build on one another. Each owns its arrays and knows only the parts given to it.
#pragma once

#include "base/statistics.hpp"
#include "interfaces/interfaces.hpp"
#include "interfaces/messages.hpp"
#include "interfaces/packets.hpp"
#include "links/credit_channels.hpp"
#include "links/flit_channels.hpp"
#include "network/shape.hpp"
#include "routers/combined_routers.hpp"
#include "routers/input_buffers.hpp"
#include "routers/staged_routers.hpp"
#include "routing/route_computation.hpp"
#include "timing/clock.hpp"
#include "timing/garnet_event_order.hpp"
#include "timing/windows.hpp"

namespace astra::packet {

struct Parts {
  explicit Parts(const Shape& of)
      : shape(of),
        windows(of),
        clock(of, windows.routers_of_tile()),
        statistics(of.channels()),
        messages(of.rules.packet_flits(), packets),
        calls(of),
        flit_channels(of, clock, statistics),
        credits(of, clock, calls),
        inputs(of, clock, flit_channels, credits, statistics),
        routes(of, credits),
        combined(of, clock, calls, credits, inputs, packets, routes),
        staged(of, clock, credits, inputs, packets, routes),
        interfaces(of, clock, credits, inputs, packets, messages, statistics) {}
  // Parts in the same state, which speak with each other (see neighbour.hpp).
  Parts(const Parts& other) : Parts(*other.shape) { *this = other; }
  Parts& operator=(const Parts& other) = default;

  // So many threads run the tiles from now on (see thread_team.hpp).
  void employ(int threads) {
    clock.employ(threads);
    statistics.employ(threads);
    packets.employ(threads);
    messages.employ(threads);
    flit_channels.employ(threads);
    credits.employ(threads);
    combined.employ(threads);
    staged.employ(threads);
    interfaces.employ(threads);
  }
  // Their work in a window takes effect, and is seen by all.
  void settle() {
    statistics.settle();
    packets.settle();
    messages.settle();
    flit_channels.settle();
    credits.settle();
  }

  Neighbour<const Shape> shape;
  Windows windows;
  Clock clock;
  Statistics statistics;
  Packets packets;
  Messages messages;
  GarnetEventOrder calls;
  FlitChannels flit_channels;
  CreditChannels credits;
  InputBuffers inputs;
  RouteComputation routes;
  CombinedRouters combined;  // routers of the shape are of one kind;
  StagedRouters staged;      // the other part is empty
  Interfaces interfaces;
};

}  // namespace astra::packet
