// The queues of ports of switches at equal intervals, on request.
#pragma once

#include <cstdint>
#include <vector>

#include "output_queues.hpp"
#include "types.hpp"

namespace astra::roce {

// The bytes that wait at a port from a time on, until the next sample of that port.
struct QueueSample {
  Tick time;
  LinkId port;
  std::int64_t bytes;
};

class QueueSamples {
 public:
  // Look at ports of switches after each interval; the first `npus` nodes are none.
  void begin(Tick interval, const Plan& plan) {
    interval_ = next_ = interval;
    last_.assign(plan.links.size(), 0);
    for (LinkId link = 0; link < plan.links.size(); ++link) {
      if (plan.links[link].source >= plan.npus) ports_.push_back(link);
    }
  }

  // There are no events before a time: take the samples up to it. Queues do not change in between, so one of them represents all.
  void upto(Tick time, const OutputQueues& queues) {
    if (time < next_) return;
    for (const LinkId port : ports_) {
      const std::int64_t bytes = queues.bytes(port);
      if (bytes == last_[port]) continue;
      last_[port] = bytes;
      taken_.push_back({next_, port, bytes});
    }
    next_ = (time / interval_ + 1) * interval_;
  }

  const std::vector<QueueSample>& taken() const { return taken_; }

 private:
  Tick interval_ = 0;
  Tick next_ = kNever;
  std::vector<LinkId> ports_;
  std::vector<std::int64_t> last_;  // by link: the value of the last sample of the port
  std::vector<QueueSample> taken_;
};

}  // namespace astra::roce
