// The parts of a network, in the order in which they build on one another. Each owns its arrays and knows only the parts given to it.
#pragma once

#include <cstdint>
#include <memory>

#include "congestion.hpp"
#include "endpoints.hpp"
#include "events.hpp"
#include "flows.hpp"
#include "load_balancing.hpp"
#include "monitor.hpp"
#include "nics.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "routes.hpp"
#include "settings.hpp"
#include "starts.hpp"
#include "switches.hpp"
#include "wires.hpp"

namespace astra::roce {

struct Parts {
  Parts(Settings of, Plan of_platform);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Whether something but timers goes on.
  bool moves() const { return wires.on_the_way() > 0 || nics.sleeping() > 0 || starts.waiting() > 0; }
  // Messages that have not ended.
  std::uint64_t undelivered() const { return starts.waiting() + flows.under_way(); }

  Settings settings;
  Plan plan;
  Events events;
  Random random;
  Packets packets;
  Flows flows;
  Monitor monitor;
  Routes routes;
  Wires wires;
  Nics nics;
  PathChoices path_choices;
  Switches switches;
  std::unique_ptr<Congestion> congestion;
  Endpoints endpoints;
  Starts starts;
};

}  // namespace astra::roce
