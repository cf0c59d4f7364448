#include "endpoints.hpp"

#include <algorithm>
#include <limits>

namespace astra::roce {

void Endpoints::receive(PacketId id) {
  Packet& packet = packets_[id];
  Flow& flow = flows_[packet.flow];
  if (!flow.under_way) return discard(id);
  const Answer answer = settings_.out_of_order ? in_any_order(packet.flow, packet) : in_order(flow, packet);
  if (flow.receiver.expected >= flow.message.end) note_arrivals(packet.flow);
  if (answer == Answer::nothing) return discard(id);
  packet.kind = answer == Answer::ack ? Kind::ack : Kind::nack;
  if (answer == Answer::nack) ++monitor_.refusals;
  packet.sequence = flow.receiver.expected;
  packet.step = 0;
  packet.bytes = std::max(settings_.shortest_ack_bytes, settings_.ack_bytes + settings_.telemetry_bytes);
  const LinkId nic = path_choices_.interface_back(packet.flow);
  if (nic == kNone) return discard(id);
  nics_.acknowledge(nic, id);
}

void Endpoints::note_arrivals(FlowId id) {
  Flow& flow = flows_[id];
  note_arrival(flow, flow.message);
  if (!flow.has_more()) return;
  for (FlowMessage& message : flows_.behind(id)) {
    if (flow.receiver.expected < message.end) return;
    note_arrival(flow, message);
  }
}

void Endpoints::note_arrival(Flow& flow, FlowMessage& message) {
  if (message.received >= 0) return;
  message.received = events_.now();
  flow.receiver.whole = message.end;
  if (settings_.complete_at_arrival) delivered.push_back({message.number, false});
}

Endpoints::Answer Endpoints::in_order(Flow& flow, const Packet& packet) {
  // After going back to the start of a chunk packets may begin elsewhere than before: one that has the missing byte will do.
  if (packet.sequence <= flow.receiver.expected && packet.sequence + packet.payload > flow.receiver.expected) {
    flow.receiver.expected = packet.sequence + packet.payload;
    return acknowledges(flow) ? Answer::ack : Answer::nothing;
  }
  if (packet.sequence < flow.receiver.expected) return settings_.retransmission > 0 ? Answer::ack : Answer::nothing;
  if (events_.now() < flow.receiver.refuse_again && flow.receiver.last_refused == flow.receiver.expected) return Answer::nothing;
  flow.receiver.refuse_again = events_.now() + settings_.nack_gap;
  flow.receiver.last_refused = flow.receiver.expected;
  if (settings_.back_to_chunk)
    flow.receiver.expected = std::max(flow.receiver.whole, flow.receiver.expected - flow.receiver.expected % settings_.chunk_bytes);
  return Answer::nack;
}

Endpoints::Answer Endpoints::in_any_order(FlowId id, const Packet& packet) {
  Flow& flow = flows_[id];
  if (early_.size() <= id) early_.resize(id + 1);
  std::set<std::int64_t>& early = early_[id];
  if (packet.sequence > flow.receiver.expected) {
    early.insert(packet.sequence);
  } else {
    flow.receiver.expected = std::max(flow.receiver.expected, packet.sequence + packet.payload);
    while (!early.empty() && *early.begin() <= flow.receiver.expected) {
      flow.receiver.expected = std::max(flow.receiver.expected, std::min<std::int64_t>(*early.begin() + settings_.payload_bytes,
                                                                                       flows_.message_of(id, *early.begin()).end));
      early.erase(early.begin());
    }
  }
  return Answer::ack;
}

bool Endpoints::acknowledges(const Flow& flow) const {
  return flow.receiver.expected >= std::min(settings_.ack_interval_bytes, flow.message.end) ||
         flow.receiver.expected % settings_.chunk_bytes == 0;
}

void Endpoints::answer(PacketId id) {
  const Packet& packet = packets_[id];
  Flow& flow = flows_[packet.flow];
  if (!flow.under_way) return discard(id);
  ++(packet.kind == Kind::nack ? flow.message.counts.nacks : flow.message.counts.acks);
  if (packet.marked) ++flow.message.counts.marked_acks;
  const std::int64_t chunk = settings_.back_to_chunk ? packet.sequence - packet.sequence % settings_.chunk_bytes : packet.sequence;
  const std::int64_t upto = std::max(chunk, flows_.whole_messages(packet.flow, packet.sequence));  // the last chunk may be short
  if (upto > flow.acknowledged) {
    grow(flow, upto - flow.acknowledged);
    flow.acknowledged = upto;
    flow.timeout.since = events_.now();
    flow.timeout.count = 0;
  }
  flow.next_byte = std::max(flow.next_byte, flow.acknowledged);
  const LinkId nic = flow.nic;
  while (flow.acknowledged >= flow.message.end && flow.has_more()) {
    complete(flow);
    flows_.take_next(packet.flow);
  }
  if (flow.finished()) {
    complete(flow);
    end(packet.flow);
  } else {
    if (packet.kind == Kind::nack) go_back(flow, false);
    congestion_.acknowledged(packet.flow, id);
  }
  nics_.update(packet.flow);
  discard(id);
  nics_.serve(nic);
}

void Endpoints::complete(const Flow& flow) {
  const FlowMessage& message = flow.message;
  if (!settings_.complete_at_arrival) delivered.push_back({message.number, false});
  delivered.push_back({message.number, true});
  ++monitor_.messages;
  if (monitor_.keeps_flows) {
    monitor_.flows.push_back({message.number, flow.ends.number, flow.ends.source, flow.ends.destination, flow.ends.source_port,
                              message.bytes, message.sent, message.started, message.received, events_.now(), message.counts.packets,
                              message.counts.acks, message.counts.nacks, message.counts.marked_acks});
  }
  monitor_.packets += message.counts.packets;
}

void Endpoints::end(FlowId id) {
  if (id < early_.size()) early_[id].clear();
  flows_.end(id);
}

bool Endpoints::timeout(FlowId id) {
  Flow& flow = flows_[id];
  const bool hopeful = flow.timeout.count < kMostTimeouts;
  flow.timer = false;
  if (flow.under_way && flow.next_byte > flow.acknowledged) {
    Tick next = flow.timeout.since + settings_.retransmission;
    if (next <= events_.now()) {
      go_back(flow, true);
      flow.timeout.since = events_.now();
      ++monitor_.timeouts;
      ++flow.timeout.count;
      next = events_.now() + patience(flow);
    }
    flow.timer = true;
    flows_.hold(id);
    events_.at(next, EventKind::timeout, id);
    nics_.update(id);
    nics_.serve(flow.nic);
  }
  flows_.drop(id);
  return hopeful;
}

void Endpoints::go_back(Flow& flow, bool timed_out) {
  const std::int64_t in_flight = flow.next_byte - flow.acknowledged;
  flow.next_byte = flow.acknowledged;
  if (!settings_.slow_restart) return;
  // Less would wait for an acknowledgement that never comes.
  const std::int64_t least =
      std::max<std::int64_t>({settings_.payload_bytes, settings_.ack_interval_bytes, settings_.back_to_chunk ? settings_.chunk_bytes : 0});
  flow.loss.threshold = std::max(least, in_flight / 2);
  flow.loss.window = timed_out ? least : flow.loss.threshold;
}

void Endpoints::grow(Flow& flow, std::int64_t bytes) const {
  if (flow.loss.window == std::numeric_limits<std::int64_t>::max()) return;
  const bool slow = flow.loss.window >= flow.loss.threshold;
  flow.loss.window += slow ? std::max<std::int64_t>(1, settings_.payload_bytes * bytes / flow.loss.window) : bytes;
}

Tick Endpoints::patience(const Flow& flow) {
  if (!settings_.slow_restart || flow.timeout.count < 2) return settings_.retransmission;
  const Tick longer = settings_.retransmission << std::min(flow.timeout.count - 1, kMostDoublings);
  return longer + static_cast<Tick>(random_.share() * static_cast<double>(longer));
}

void Endpoints::discard(PacketId id) {
  flows_.drop(packets_[id].flow);
  packets_.give_back(id);
}

}  // namespace astra::roce
