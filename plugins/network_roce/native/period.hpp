// A period: the events between two moments at which the network is idle, with times from its start on.
//
// The network is idle if no packet and no message is under way: messages at most wait for their start. Its events from there on
// depend on that moment, on the messages that are sent, and on random numbers alone. Of links and nodes they depend on those that the
// messages pass, and not on their numbers: here they are numbered in the order in which messages first pass them (labels.hpp). So the steps
// of a ring are the same period, though other NPUs come first in each.
#pragma once

#include <cstdint>
#include <vector>

#include "monitor.hpp"
#include "types.hpp"

namespace astra::roce {

struct MessageSpec {
  std::uint64_t number;
  NodeId source;
  NodeId destination;
  std::int64_t bytes;
  std::uint8_t queue;       // the priority group
  std::int64_t connection;  // of those from the source to the destination; 0: one for this message alone
};

// A message that waits for its start.
struct Start {
  MessageSpec message;
  Tick time;
  std::uint16_t port;    // of its source
  std::uint32_t rounds;  // of its instant that it still waits
};

// A message that is sent in a period, as far as it can matter.
struct PendingSend {
  Tick time = 0;  // when it starts
  std::uint32_t rounds = 0;
  std::int64_t bytes = 0;
  std::uint8_t queue = 0;
  std::uint32_t connection = 0;   // its label, or kNone where it has one for it alone
  std::vector<std::int64_t> way;  // its round trip, and the labels of the links on it, with the state that decides events there

  bool operator==(const PendingSend&) const = default;
};

// Something that passes between the network and its user: a message is sent, or something has become of one.
struct Step {
  enum class Kind : std::uint8_t { post, delivery };

  Kind kind = Kind::post;
  bool arrived = false;  // the message has arrived
  bool sent = false;     // its sender knows
  std::uint32_t message = 0;
  Tick time = 0;  // of a delivery; of a post the time up to which nothing more had happened then, or kNothing

  static constexpr Tick kNothing = -1;

  bool operator==(const Step&) const = default;
};

// A message that waits at the end of a period.
struct Left {
  std::uint32_t message;
  std::uint32_t rounds;
};

// The counters of a link.
struct LinkTotal {
  std::uint64_t bytes = 0;
  Tick busy = 0;
  std::int64_t highest = 0;  // most bytes in the queues of its port

  bool operator==(const LinkTotal&) const = default;
};

struct Totals {
  Counters counters{};
  std::uint64_t events = 0;
  std::vector<LinkTotal> links;  // by link; in a period by label
};

struct Period {
  std::vector<PendingSend> waiting;  // at its start, in order
  std::vector<PendingSend> pending;  // after that
  std::vector<Step> steps;

  Tick length = 0;
  std::vector<Tick> timers;  // that it leaves behind, of messages that have ended: from its end on. They change nothing, but are events
  std::vector<Left> left;
  Totals totals;                    // its counters
  std::vector<FlowRecord> flows;    // that ended in it; `number` and `first` are messages of this period
  std::vector<PauseRecord> pauses;  // nodes and ports by label
};

}  // namespace astra::roce
