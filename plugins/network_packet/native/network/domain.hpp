// A network, or a part of one that shares no link, buffer or arbiter with others: its parts, run cycle by cycle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/flit.hpp"
#include "base/statistics.hpp"
#include "network/parts.hpp"
#include "network/shape.hpp"
#include "replay/steady_state.hpp"
#include "timing/thread_team.hpp"

namespace astra::packet {

// So many cycles go by between two looks at the clock for signals.
inline constexpr unsigned kCyclesBetweenLooks = 16;

class Domain {
 public:
  explicit Domain(std::shared_ptr<const Shape> shape);

  // Puts a message into its source's queue, after cycle `now` has been run. It is made into packets from the next cycle on, or from this
  // one where the interface is `awake` and that matters.
  void inject(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake);
  // Whether an injection port was at work in cycle `now`, which has been run: it sent, received, or had something to send.
  bool awake(int injection_port, Cycle now) const { return parts_.interfaces.awake(injection_port, now); }

  // The next cycle in which anything happens, or kNever.
  Cycle next() const { return passing_ == 0 ? parts_.clock.next() : parts_.clock.next() + passing_ * steady_.period; }
  // Bring a domain that skips periods to the end of cycle `time`, in which nothing arrives.
  void catch_up(Cycle time);
  // Run cycle `time`, which must be next(), and perhaps more, none after `last`. Numbers of messages that have arrived are appended to
  // `arrived`. Returns the last cycle that was run, which is the one in which they have.
  Cycle run(Cycle time, Cycle last, std::vector<std::uint64_t>& arrived);
  Cycle longest_window() const { return parts_.windows.length(); }
  // Messages that have not arrived.
  std::int64_t outstanding() const { return parts_.messages.outstanding(); }
  const Shape& shape() const { return *shape_; }
  Statistics statistics() const;
  // Windows that several threads have run together.
  std::int64_t shared_windows() const { return shared_windows_; }

  // No message is under way and nothing is left to do (credits may still be on their way).
  bool rests() const { return outstanding() == 0 && next() == kNever; }
  // The complete state of a domain at rest, relative to `now`.
  std::vector<std::int64_t> signature(Cycle now);
  void clear_statistics() { parts_.statistics = Statistics(shape_->channels()); }

  // For each link that is blocked for ever, the packet that holds it (see deadlock.hpp).
  std::vector<std::string> waiting() const;
  // Checks invariants; returns the violated ones, or nothing.
  std::string check() const;

  // Synthetic traffic makes messages by itself, through the interfaces; meanwhile no periods are skipped.
  void attach(Traffic* traffic);
  Interfaces& interfaces() { return parts_.interfaces; }

 private:
  // Runs cycle `time` and more up to `last`, none after one in which the anchor of steady states makes a packet. Returns the last.
  Cycle step(Cycle time, Cycle last);
  // The last cycle of a window that begins with `time`.
  Cycle end_of_window(Cycle time, Cycle last) const;
  // Runs the pending work of a tile cycle by cycle from `time` up to `last`, none after one for which `is_last` holds. Returns the last.
  template <class IsLast>
  Cycle run_window(int tile, Cycle time, Cycle last, IsLast is_last);
  template <class Routers>
  void run_tile(Routers& routers, int tile, Cycle time);
  // Whether there is enough work up to `last` for the team. It is created when the run has turned out to be long.
  bool is_shared(Cycle time, Cycle last);
  void note_pace(Cycle time, Cycle last);
  bool looks_for_periods() const { return shape_->rules.extrapolate && shape_->dividers.rhythm != kNever && !has_traffic_; }

  std::shared_ptr<const Shape> shape_;
  Parts parts_;
  SteadyState steady_;
  std::int64_t passing_ = 0;  // periods to skip before the next cycle
  bool has_traffic_ = false;
  int threads_;                       // that a shared window has
  std::shared_ptr<ThreadTeam> team_;  // copies of a domain share it: they run one after the other
  std::int64_t acts_ = 0;             // of units, up to the last window but one,
  double pace_ = 0;                   // and for each cycle of the last
  std::int64_t shared_windows_ = 0;
};

}  // namespace astra::packet
