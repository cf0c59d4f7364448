// Messages that wait for their start, and how one begins.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "congestion.hpp"
#include "events.hpp"
#include "flows.hpp"
#include "load_balancing.hpp"
#include "nics.hpp"
#include "period.hpp"
#include "routes.hpp"
#include "settings.hpp"
#include "wires.hpp"

namespace astra::roce {

// A message that cannot be sent.
struct InvalidMessage : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class Starts {
 public:
  Starts(const Settings& settings, Events& events, Flows& flows, const Routes& routes, const Wires& wires, Nics& nics,
         PathChoices& path_choices, Congestion& congestion)
      : settings_(settings),
        events_(events),
        flows_(flows),
        routes_(routes),
        wires_(wires),
        nics_(nics),
        path_choices_(path_choices),
        congestion_(congestion) {}

  // A message waits for its start, which is an event with a number as subject.
  void add(const Start& start);
  const Start& operator[](std::uint32_t number) const { return starts_[number]; }
  // The event of a start: the message begins, or waits for its next round of the instant. Throws InvalidMessage where it has no route.
  void take(std::uint32_t number);

  std::uint64_t waiting() const { return waiting_; }
  // Forget all of them; their events are gone.
  void clear();

 private:
  // A message begins: behind others of its connection, or with a queue pair of its own.
  void begin(const Start& start);
  void begin(const FlowEnds& ends, std::uint8_t queue, const FlowMessage& message);

  const Settings& settings_;
  Events& events_;
  Flows& flows_;
  const Routes& routes_;
  const Wires& wires_;
  Nics& nics_;
  PathChoices& path_choices_;
  Congestion& congestion_;
  std::vector<Start> starts_;
  std::vector<std::uint32_t> free_;
  std::uint64_t waiting_ = 0;
};

}  // namespace astra::roce
