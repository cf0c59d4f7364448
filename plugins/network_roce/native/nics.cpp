#include "nics.hpp"

#include <algorithm>

namespace astra::roce {

void Nics::add(FlowId flow) {
  flows_.hold(flow);
  Flow& added = flows_[flow];
  added.place = nics_[added.nic].pairs.add(flow, added.queue, state_of(added));
  serve(added.nic);
}

void Nics::woken(LinkId link) {
  Nic& nic = nics_[link];
  if (nic.wake_order != events_.current()) return;
  nic.wake_at = kNever;
  --sleeping_;
  serve(link);
}

void Nics::change_rate(FlowId id, std::int64_t rate) {
  Flow& flow = flows_[id];
  const Tick second = settings_.ticks_per_ns * 1'000'000'000;
  const std::int64_t bytes = flow.last.bytes + settings_.gap_bytes;
  flow.next_time += transmission(bytes, rate, second) - transmission(bytes, flow.rate, second);
  flow.rate = rate;
  if (nics_[flow.nic].wake_at != kNever && flow.next_time < nics_[flow.nic].wake_at) wake_at(flow.nic, flow.next_time);
}

void Nics::fail(LinkId link, std::vector<FlowId>& pairs, std::vector<PacketId>& acks) {
  Nic& nic = nics_[link];
  pairs = nic.pairs.take_all();
  while (!nic.acks.empty()) acks.push_back(nic.acks.pop(packets_));
}

void Nics::sleep(LinkId link) {
  Nic& nic = nics_[link];
  if (settings_.blocked_pairs_hold && nic.wake_at != kNever) return;
  const Tick next = settings_.blocked_pairs_hold ? nic.pairs.earliest() : nic.pairs.earliest_ready(nic.paused);
  if (next != kNever && next > events_.now() && next < nic.wake_at) wake_at(link, next);
}

void Nics::wake_at(LinkId link, Tick time) {
  Nic& nic = nics_[link];
  if (nic.wake_at == kNever) ++sleeping_;
  nic.wake_at = std::max(time, events_.now());
  nic.wake_order = events_.next_order();
  events_.at(nic.wake_at, nic.wake_order, EventKind::wake, link);
}

}  // namespace astra::roce
