// Plays periods back that were recorded, as long as the same messages are sent at the same times.
//
// Meanwhile the network itself is stopped at the idle moment. If an event differs from any period that is
// known, it begins there again, and gets all messages that were played back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "period.hpp"
#include "types.hpp"

namespace astra::roce {

// The point from which the network may have to begin again: an idle moment, and the messages played back since.
struct Played {
  Tick began = 0;
  std::vector<Tick> timers;     // of messages that have ended
  std::vector<Start> messages;  // those that waited, then those that were posted
  std::size_t waiting = 0;      // of them
  std::vector<Step> steps;
  Tick upto = -1;  // and then nothing happened up to this time
};

class Player {
 public:
  enum class Answer : std::uint8_t { waits, delivers, ends, differs };

  void keep(std::shared_ptr<const Period> period);

  bool plays() const { return plays_; }
  Tick began() const { return began_; }
  Tick now() const { return now_; }
  const Period& period() const { return *period_; }
  const Start& message(std::size_t place) const { return messages_[place]; }
  // Of the last answer that `delivers`.
  const Step& delivery() const { return period_->steps[place_ - 1]; }

  // Begins to play where a period is known that starts as the network is now, with messages that wait. Returns whether it does. If not,
  // `leave` gives that moment.
  bool begin(Tick now, std::vector<PendingSend> pending, std::vector<Start> waiting);
  // Timers of messages that have ended go on, and how many have passed up to a time.
  void add_timer(Tick time) { timers_.push(time); }
  std::uint64_t pass_timers(Tick upto);
  // A message is sent. Returns whether a period is known that goes on like this.
  bool post(const PendingSend& pending, const Start& start);
  // Goes on to the next delivery, but not beyond a time.
  Answer advance(Tick until);
  // At the end of the period: when that is, and the messages that wait then.
  Tick end() const { return began_ + period_->length; }
  std::vector<Start> waiting() const;
  // Stops playing.
  Played leave();

 private:
  static constexpr std::size_t kMostPeriods = 32;

  bool may_advance(const Period& period, Tick until) const;
  bool may_post(const Period& period, const PendingSend& pending) const;
  // Turns to a period that is the same so far, and of which something holds. Returns whether there is one.
  template <class Holds>
  bool turn_to(Holds holds);

  bool plays_ = false;
  std::shared_ptr<const Period> period_;  // none where no period that is known starts from here
  std::size_t place_ = 0;                 // of the next step
  Tick began_ = 0;
  Tick now_ = 0;
  Tick upto_ = -1;
  std::vector<PendingSend> waiting_;
  std::priority_queue<Tick, std::vector<Tick>, std::greater<>> timers_;
  std::vector<Start> messages_;
  std::vector<std::shared_ptr<const Period>> known_;  // the newest last
};

}  // namespace astra::roce
