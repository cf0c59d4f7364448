// SPDX-License-Identifier: GPL-2.0-only
#include "event_heap.hpp"

#include <algorithm>

#include "ns3/event-impl.h"

namespace astra::tcp {

namespace {

// The standard library keeps the largest element in front.
bool later(const ns3::Scheduler::Event& one, const ns3::Scheduler::Event& other) { return other.key < one.key; }

}  // namespace

ns3::TypeId EventHeap::GetTypeId() {
  static const ns3::TypeId id = ns3::TypeId("astra::EventHeap").SetParent<ns3::Scheduler>().AddConstructor<EventHeap>();
  return id;
}

void EventHeap::Insert(const Event& event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), later);
  if (events_.size() > most_) bring_forward_cancelled();
}

ns3::Scheduler::Event EventHeap::RemoveNext() {
  std::pop_heap(events_.begin(), events_.end(), later);
  const Event next = events_.back();
  events_.pop_back();
  return next;
}

void EventHeap::Remove(const Event& event) {
  const auto place = std::find_if(events_.begin(), events_.end(), [&](const Event& each) { return each.key.m_uid == event.key.m_uid; });
  if (place == events_.end()) return;
  *place = events_.back();
  events_.pop_back();
  std::make_heap(events_.begin(), events_.end(), later);
}

// They get the time of the next event, so that time does not go back.
void EventHeap::bring_forward_cancelled() {
  const auto now = events_.front().key.m_ts;
  std::size_t cancelled = 0;
  for (Event& event : events_) {
    if (!event.impl->IsCancelled()) continue;
    event.key.m_ts = now;
    ++cancelled;
  }
  std::make_heap(events_.begin(), events_.end(), later);
  most_ = std::max(kFewest, 2 * (events_.size() - cancelled));
}

}  // namespace astra::tcp
