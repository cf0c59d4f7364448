// SPDX-License-Identifier: GPL-2.0-only
// The events of ns-3 in a heap that drops cancelled ones, and removes single events, as schedulers of ns-3 must: so it is
// no `RadixQueue` of the kernel.
//
// TCP sets its timer of retransmission anew with every acknowledgement. ns-3 leaves the cancelled timer among its events until its time
// comes, 0.2 simulated seconds later: by then there would be millions. Here they are moved to the front repeatedly, where they do
// nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "ns3/scheduler.h"

namespace astra::tcp {

class EventHeap : public ns3::Scheduler {
 public:
  static ns3::TypeId GetTypeId();

  void Insert(const Event& event) override;
  bool IsEmpty() const override { return events_.empty(); }
  Event PeekNext() const override { return events_.front(); }
  Event RemoveNext() override;
  void Remove(const Event& event) override;

 private:
  static constexpr std::size_t kFewest = 4096;

  void bring_forward_cancelled();

  std::vector<Event> events_;
  std::size_t most_ = kFewest;  // more events are looked through
};

}  // namespace astra::tcp
