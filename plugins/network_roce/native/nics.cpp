#include "nics.hpp"

#include <algorithm>

namespace astra::roce {

void Nics::add(FlowId flow) {
  flows_.hold(flow);
  Flow& added = flows_[flow];
  added.place = nics_[added.nic].pairs.add(flow, added.queue, state_of(added));
  serve(added.nic);
}

void Nics::update(FlowId id) {
  const Flow& flow = flows_[id];
  nics_[flow.nic].pairs.set(flow.place, state_of(flow));
}

void Nics::acknowledge(LinkId nic, PacketId id) {
  nics_[nic].acks.push(packets_, id);
  serve(nic);
}

void Nics::serve(LinkId link) {
  Nic& nic = nics_[link];
  if (!wires_.is_free(link)) {
    if (has_work(link)) wires_.tell_when_free(link);
    return;
  }
  if (!wires_.is_up(link)) return;
  if (!nic.acks.empty() && (settings_.acks_first || (nic.paused >> kAckQueue & 1) == 0)) {
    wires_.send(link, nic.acks.pop(packets_));
  } else {
    if (nic.pairs.empty()) return;
    const std::uint32_t place = choose(nic);
    if (place == kNone) return sleep(link);
    nic.last = place;
    const FlowId id = nic.pairs.flow(place);
    wires_.send(link, packet_of(id));
    nic.pairs.set(place, state_of(flows_[id]));
  }
  if (has_work(link)) wires_.tell_when_free(link);
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
  const std::int64_t bytes = flow.last_bytes + settings_.gap_bytes;
  flow.next_time += transmission(bytes, rate, second) - transmission(bytes, flow.rate, second);
  flow.rate = rate;
  if (nics_[flow.nic].wake_at != kNever && flow.next_time < nics_[flow.nic].wake_at) wake_at(flow.nic, flow.next_time);
}

void Nics::fail(LinkId link, std::vector<FlowId>& pairs, std::vector<PacketId>& acks) {
  Nic& nic = nics_[link];
  pairs = nic.pairs.take_all();
  while (!nic.acks.empty()) acks.push_back(nic.acks.pop(packets_));
}

QueuePairs::State Nics::state_of(const Flow& flow) const { return {flow.left() > 0 && has_room(flow), flow.finished(), flow.next_time}; }

bool Nics::has_room(const Flow& flow) const {
  if (flow.window == 0) return true;
  std::int64_t window = flow.window;
  if (settings_.variable_window && flow.rate != flow.line_rate) {
    window = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<__int128>(window) * flow.rate / flow.line_rate));
  }
  return flow.next_byte - flow.acknowledged < window;
}

std::uint32_t Nics::choose(Nic& nic) {
  QueuePairs& pairs = nic.pairs;
  const std::uint32_t last = nic.last % pairs.count();
  std::uint32_t chosen = pairs.next(last, events_.now(), nic.paused);
  const std::uint32_t finished = pairs.first_finished(last, chosen);
  if (finished == kNone) return chosen;
  const std::uint32_t before = chosen;
  pairs.take_finished(
      finished, [this](FlowId id) { flows_.drop(id); },
      [&](FlowId id, std::uint32_t from, std::uint32_t to) {
        flows_[id].place = to;
        if (from == before) chosen = to;
      });
  return chosen;
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
  events_.at(nic.wake_at, nic.wake_order, What::wake, link);
}

PacketId Nics::packet_of(FlowId id) {
  const PacketId number = packets_.take();
  Packet& packet = packets_[number];
  Flow& flow = flows_[id];
  packet.kind = Kind::data;
  packet.queue = flow.queue;
  packet.flow = id;
  packet.sequence = flow.next_byte;
  packet.payload = static_cast<std::uint32_t>(std::min<std::int64_t>(settings_.payload_bytes, flow.left()));
  packet.bytes = packet.payload + settings_.header_bytes + settings_.telemetry_bytes;
  packet.stamp = events_.now();
  flows_.hold(id);
  if (settings_.retransmission > 0 && !flow.timer) {
    flow.timer = true;
    flow.progress = events_.now();
    flows_.hold(id);
    events_.at(events_.now() + settings_.retransmission, What::timeout, id);
  }
  flow.next_byte += packet.payload;
  flow.packets += 1;
  const std::int64_t rate = settings_.pacing ? flow.rate : flow.line_rate;
  if (flow.last_bytes != packet.bytes || flow.last_rate != rate) {
    flow.last_bytes = packet.bytes;
    flow.last_rate = rate;
    flow.last_time = transmission(packet.bytes + settings_.gap_bytes, rate, settings_.ticks_per_ns * 1'000'000'000);
  }
  flow.next_time = events_.now() + flow.last_time;
  return number;
}

}  // namespace astra::roce
