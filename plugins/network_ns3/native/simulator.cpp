// SPDX-License-Identifier: GPL-2.0-only
#include "simulator.hpp"

#include "event_heap.hpp"
#include "ns3/nstime.h"
#include "ns3/object-factory.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

namespace astra::tcp {

Lease* Lease::holder_ = nullptr;

Lease::Lease(std::uint32_t seed, std::function<void()> give_back) : give_back_(std::move(give_back)) {
  if (holder_) holder_->end();
  // ns-3 lets a process choose this once.
  static const bool in_picoseconds = (ns3::Time::SetResolution(ns3::Time::PS), true);
  (void)in_picoseconds;
  ns3::ObjectFactory events;
  events.SetTypeId(EventHeap::GetTypeId());
  ns3::Simulator::SetScheduler(events);
  ns3::RngSeedManager::SetSeed(seed);
  ns3::RngSeedManager::SetRun(1);
  ns3::RngSeedManager::ResetNextStreamIndex();
  holder_ = this;
}

void Lease::end() {
  if (!holds()) return;
  give_back_();
  ns3::Simulator::Destroy();
  holder_ = nullptr;
}

}  // namespace astra::tcp
