// The network skips periods that it is known to repeat: from one idle moment to the next (see period.hpp).
//
// Each period is recorded. Where one begins that is known, it is played back, while the network itself is stopped at the idle moment.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "event.hpp"
#include "labels.hpp"
#include "parts.hpp"
#include "period.hpp"
#include "player.hpp"
#include "recorder.hpp"
#include "types.hpp"

namespace astra::roce {

class Repetition {
 public:
  explicit Repetition(Parts& parts);
  // Nothing is recorded and played back from now on.
  void disable() { enabled_ = false; }

  // Whether a period is played back, and when its last event was.
  bool plays() const { return player_.plays(); }
  Tick now() const { return player_.now(); }
  // Of all events those that were not simulated, since periods were played back.
  std::uint64_t events_played_back() const { return played_events_; }

  // The next event is the start of a message. If the network is idle, a period ends and the next one begins: returns whether that is
  // played back. Then the network has no events until `leave`.
  bool begins();
  // While a period is played back: go on to the next delivery, but not beyond a time. What is delivered is with the endpoints. If the
  // answer is that events differ from here on, the network must `leave`.
  Player::Answer play(Tick until);
  // A message is sent meanwhile. Returns whether a period is known that goes on like this; if not, the network must `leave`.
  bool play_start(const Start& start);
  // The network is again at the idle moment, with the messages that waited there. Until `caught_up`, it lets all that happen again which
  // is returned.
  Played leave();
  void caught_up() { catches_up_ = false; }

  // What happens while a period may be recorded: a message is sent, an event, deliveries, and that nothing more happens up to a time.
  void note_start(const Start& start) {
    if (recorder_.records()) recorder_.post(pending(start, recorder_.began()), start);
  }
  void note_event(std::uint64_t order, EventKind what) {
    older_events_ += static_cast<unsigned>(order <= first_order_) & static_cast<unsigned>(what != EventKind::start);
  }
  void note_deliveries();
  void note_wait(Tick until) {
    if (recorder_.records()) recorder_.wait(until);
  }

 private:
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
  std::uint32_t meet_connection(const MessageSpec& message);
  void stop_events();
  // Count the events of the period that was played back.
  void count_period();

  Parts& parts_;
  Labels links_met_;  // in the period
  Labels nodes_met_;
  std::map<std::tuple<std::int64_t, NodeId, NodeId>, std::uint32_t> connections_met_;
  Recorder recorder_;
  Player player_;
  bool enabled_;
  bool catches_up_ = false;          // these events were played back before
  std::uint64_t next_look_ = 0;      // events before a period may end
  std::uint64_t first_order_ = 0;    // of events that belong to the period
  std::uint64_t older_events_ = 0;   // that have happened, and belonged to none
  std::uint64_t played_events_ = 0;  // that did not happen here
};

}  // namespace astra::roce
