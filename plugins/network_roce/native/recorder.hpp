// Writes down the period that goes on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "labels.hpp"
#include "monitor.hpp"
#include "period.hpp"
#include "types.hpp"

namespace astra::roce {

// The network at a moment at which it is idle, with the waiting messages.
struct PeriodState {
  std::vector<std::int64_t> state;  // of all its parts
  std::uint64_t random = 0;         // numbers that were drawn
  Totals totals;
};

class Recorder {
 public:
  static constexpr std::size_t kMostSteps = std::size_t{1} << 16;  // a longer period is given up

  bool records() const { return period_ != nullptr; }
  Tick began() const { return began_; }
  void stop();

  // A period begins; `pending` are the waiting messages that can matter.
  void begin(Tick now, std::vector<PendingSend> pending, const std::vector<Start>& waiting, PeriodState period_state,
             const Monitor& monitor);
  // A message is sent.
  void post(PendingSend pending, const Start& start);
  // The network has answered: with the end of a message, or that there are no events up to a time.
  void deliver(Tick now, std::uint64_t number, bool arrived, bool sent);
  void wait(Tick until) { upto_ = std::max(upto_, until); }

  // The period has ended: the network is idle again. Returns it, or nothing where another need not be the same: if the network is not
  // as at its start, or random numbers were drawn.
  std::shared_ptr<const Period> end(Tick now, const std::vector<Tick>& timers, const std::vector<Start>& waiting,
                                    const PeriodState& period_state, const Monitor& monitor, const Labels& links, const Labels& nodes);

 private:
  void add(const Step& step);
  // Counts of links by label. Returns false where a link has some that no message passes.
  bool count_links(const Totals& now, const Labels& links);

  std::shared_ptr<Period> period_;
  Tick began_ = 0;
  Tick upto_ = -1;  // nothing more happens up to this time
  PeriodState period_state_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;  // of messages by their number
  std::uint32_t messages_ = 0;
  std::size_t first_flow_ = 0;  // records of the monitor
  std::size_t first_pause_ = 0;
};

}  // namespace astra::roce
