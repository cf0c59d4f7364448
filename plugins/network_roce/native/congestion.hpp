// Congestion control: algorithms that set the rates of queue pairs. Each is a class that owns its state of each message.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "events.hpp"
#include "flows.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

class Nics;

// The inputs of an algorithm.
struct Tools {
  const Settings& settings;
  Events& events;
  Packets& packets;
  Flows& flows;
  Nics& nics;
  Random& random;

  std::int64_t limited(std::int64_t rate, const Flow& flow) const {
    return rate < settings.least_rate ? settings.least_rate : rate > flow.line_rate ? flow.line_rate : rate;
  }
};

class Congestion {
 public:
  explicit Congestion(const Tools& tools) : tools_(tools) {}
  virtual ~Congestion() = default;
  Congestion(const Congestion&) = delete;
  Congestion& operator=(const Congestion&) = delete;

  // A message begins, at full rate.
  virtual void begin(FlowId) {}
  // An acknowledgement has come for a message that is not finished.
  virtual void acknowledged(FlowId, PacketId) {}
  // A timer of a message that is not finished.
  virtual void timer(FlowId, EventKind) {}

 protected:
  // The state of a message, in an array that grows with them.
  template <class State>
  static State& of(std::vector<State>& states, FlowId flow) {
    if (states.size() <= flow) states.resize(flow + 1);
    return states[flow];
  }
  // Let a timer of a message ring.
  void ring(FlowId flow, EventKind what, Tick after) {
    tools_.flows.hold(flow);
    tools_.events.at(tools_.events.now() + after, what, flow);
  }

  Tools tools_;
};

// The algorithm of the settings.
std::unique_ptr<Congestion> make_congestion(const Tools& tools);

}  // namespace astra::roce
