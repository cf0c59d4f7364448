// The network: its parts, and the loop that lets events happen.
#pragma once

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "congestion.hpp"
#include "endpoints.hpp"
#include "events.hpp"
#include "flows.hpp"
#include "labels.hpp"
#include "load_balancing.hpp"
#include "monitor.hpp"
#include "nics.hpp"
#include "packets.hpp"
#include "period.hpp"
#include "player.hpp"
#include "queue_samples.hpp"
#include "random.hpp"
#include "recorder.hpp"
#include "routes.hpp"
#include "settings.hpp"
#include "switches.hpp"
#include "wires.hpp"

namespace astra::roce {

// Nothing can move any more, and messages are under way.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A message that cannot be sent.
struct InvalidMessage : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class Network : public Interruptible<1U << 14> {
 public:
  Network(Settings settings, Plan plan);

  // Take a message that is sent at a time, which is not before the last event. Throws InvalidMessage.
  void inject(Tick time, const MessageSpec& message);
  // Go on until messages are delivered, but not beyond a time. Returns whether there are any: they are in `delivered`. Throws Deadlock.
  bool advance(Tick until);

  // Simulate the periods that were only played back since the network was idle, so that all figures are those of now. They are not before.
  void settle() {
    if (player_.plays()) leave();
  }

  Tick now() const { return player_.plays() ? player_.now() : events_.now(); }
  const std::vector<Delivery>& delivered() const { return endpoints_.delivered; }
  const Settings& settings() const { return settings_; }
  const Plan& plan() const { return plan_; }
  const Routes& routes() const { return routes_; }
  const Monitor& monitor() const { return monitor_; }
  Monitor& monitor() { return monitor_; }
  // Sample the queues of switches at equal intervals in ticks, from now on.
  void sample_queues(Tick interval) {
    samples_.begin(interval, plan_);
    repeats_ = false;
  }
  const QueueSamples& samples() const { return samples_; }
  const Switches& switches() const { return switches_; }
  const Wires& wires() const { return wires_; }
  const Flows& flows() const { return flows_; }
  const Nics& nics() const { return nics_; }
  const Packets& packets() const { return packets_; }
  // Of all events those that were not simulated, since periods were played back.
  std::uint64_t events_played_back() const { return played_events_; }
  std::uint64_t events() const { return events_.count() + played_events_; }

 private:
  enum class Reached : std::uint8_t { delivery, idle, end };

  // Let events happen until messages are delivered, or the network is idle and a period is played back from there.
  Reached run(Tick until);
  // A message waits for its start.
  void post(const Start& start);
  // Prefetch the data that an event needs first, and, when they are there, those it needs then. Inlined since calls of functions
  // without effect are left out.
  [[gnu::always_inline]] void prefetch(EventRef event) const;
  [[gnu::always_inline]] void prefetch_dependents(EventRef event) const;
  void dispatch(EventRef event);
  // A packet comes to the end of a link.
  void arrive(LinkId link, PacketId id);
  // A timer of congestion control goes off.
  void ring(FlowId flow, EventKind timer);
  void take_pause(LinkId link, const Packet& packet);
  void start(std::uint32_t number);
  void fail(const Failure& failure);
  // Whether something but timers goes on.
  bool moves() const { return wires_.on_the_way() > 0 || nics_.sleeping() > 0 || starting_ > 0; }
  // Throw Deadlock where an event is a timer that can change nothing.
  void look_for_an_end(EventRef event);
  [[noreturn]] void give_up() const;

  // The next event is the start of a message. If the network is idle, a period ends and the next one begins: returns whether that is
  // played back. All of this is in repeat.cpp.
  bool repeats();
  // From a moment on at which the network is idle: later events are recorded.
  void record(Tick now, std::vector<PendingSend> pending, const std::vector<Start>& waiting);
  // Messages that wait, and timers that messages have left behind: those of this period, and older ones. False where the network is not
  // idle.
  bool look_at_events(std::vector<Start>& waiting, std::vector<Tick>& timers, std::vector<Tick>& older) const;
  PeriodState period_state() const;
  // Label links and nodes anew, from messages on that wait.
  std::vector<PendingSend> label(const std::vector<Start>& waiting, Tick now);
  PendingSend pending(const Start& start, Tick began);
  void meet(LinkId link, std::vector<std::int64_t>& way);
  void stop_events();
  void note_delivery();
  // Go on from the player's record. Returns whether it has an answer: whether messages are delivered.
  bool play(Tick until, bool& delivered);
  // Count the events of the period that was played back.
  void count_period();
  // Simulate the periods that were only played back.
  void leave();

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
  PathChoices path_choices_;
  Switches switches_;
  std::unique_ptr<Congestion> congestion_;
  Endpoints endpoints_;
  std::vector<Start> starts_;
  std::vector<std::uint32_t> free_starts_;
  std::uint64_t starting_ = 0;
  std::uint64_t failures_left_ = 0;
  std::uint64_t undelivered_ = 0;
  std::uint64_t idle_timeouts_ = 0;  // since something moved
  Labels links_met_;                 // in the period
  Labels nodes_met_;
  Recorder recorder_;
  Player player_;
  bool repeats_ = false;             // periods are recorded and played back
  bool catches_up_ = false;          // these events were played back before
  std::uint64_t next_look_ = 0;      // events before a period may end
  std::uint64_t first_order_ = 0;    // of events that belong to the period
  std::uint64_t older_events_ = 0;   // that have happened, and belonged to none
  std::uint64_t played_events_ = 0;  // that did not happen here
  Tick reached_ = 0;                 // the last answer
};

// The wait cycle of a network in which nothing moves: a line about it, and then one for each link of a circle of pauses, or each
// message.
std::string explain_deadlock(const Network& network);

}  // namespace astra::roce
