// The network: its parts, and the loop that lets events happen.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "congestion.hpp"
#include "endpoints.hpp"
#include "events.hpp"
#include "flows.hpp"
#include "interrupt.hpp"
#include "load_balancing.hpp"
#include "monitor.hpp"
#include "nics.hpp"
#include "packets.hpp"
#include "queue_samples.hpp"
#include "random.hpp"
#include "routes.hpp"
#include "settings.hpp"
#include "switches.hpp"
#include "wires.hpp"

namespace astra::roce {

// Nothing can move any more, and messages are under way.
struct Stuck : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A message that cannot be sent.
struct Impossible : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct MessageSpec {
  std::uint64_t number;
  NodeId source;
  NodeId destination;
  std::int64_t bytes;
  std::uint8_t queue;  // the priority group
};

class Network : public Interruptible {
 public:
  Network(Settings settings, Plan plan);

  // Take a message that is sent at a time, which is not before the last event. Throws Impossible.
  void inject(Tick time, const MessageSpec& message);
  // Go on until messages are delivered, but not beyond a time. Returns whether there are any: they stand in `delivered`. Throws Stuck.
  bool advance(Tick until);

  Tick now() const { return events_.now(); }
  const std::vector<Delivery>& delivered() const { return endpoints_.delivered; }
  const Settings& settings() const { return settings_; }
  const Plan& plan() const { return plan_; }
  const Routes& routes() const { return routes_; }
  const Monitor& monitor() const { return monitor_; }
  Monitor& monitor() { return monitor_; }
  // Sample the queues of switches after each so many ticks, from now on.
  void sample_queues(Tick interval) { samples_.begin(interval, plan_); }
  const QueueSamples& samples() const { return samples_; }
  const Switches& switches() const { return switches_; }
  const Wires& wires() const { return wires_; }
  const Flows& flows() const { return flows_; }
  const Nics& nics() const { return nics_; }
  const Packets& packets() const { return packets_; }
  std::uint64_t events() const { return events_.count(); }

 private:
  struct Start {
    MessageSpec message;
    Tick sent;
    std::uint16_t port;
    std::uint32_t rounds;
    std::uint32_t next_free;
  };

  void happen(const Event& event);
  void arrive(LinkId link);
  void take_pause(LinkId link, const Packet& packet);
  void start(std::uint32_t number);
  void fail(const Failure& failure);
  // Whether something but timers goes on.
  bool moves() const { return wires_.on_the_way() > 0 || nics_.sleeping() > 0 || starting_ > 0; }
  // Throw Stuck where an event is a timer that can change nothing.
  void look_for_an_end(const Event& event);
  [[noreturn]] void give_up() const;

  Settings settings_;
  Plan plan_;
  Events events_;
  Random random_;
  Packets packets_;
  Flows flows_;
  Monitor monitor_;
  QueueSamples samples_;
  Routes routes_;
  Wires wires_;
  Nics nics_;
  Ways ways_;
  Switches switches_;
  std::unique_ptr<Congestion> congestion_;
  Endpoints endpoints_;
  std::vector<Start> starts_;
  std::uint32_t free_start_ = kNone;
  std::uint64_t starting_ = 0;
  std::uint64_t failures_left_ = 0;
  std::uint64_t undelivered_ = 0;
  std::uint64_t idle_timeouts_ = 0;  // since something moved
};

// What waits for what in a network in which nothing moves: a line about it, and then one for each link of a circle of pauses, or each
// message.
std::string why_stuck(const Network& network);

}  // namespace astra::roce
