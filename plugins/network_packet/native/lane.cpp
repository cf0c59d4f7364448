// Network interfaces: messages become packets, packets get virtual channels, flits leave one a cycle; what arrives is consumed at once.

#include "domain.hpp"
#include "traffic.hpp"

namespace astra::packet {

void Domain::run_lane(int l, Cycle now) {
  const LaneSpec& spec = shape_->lane[static_cast<std::size_t>(l)];
  Lane& lane = lanes_[static_cast<std::size_t>(l)];
  const bool works = !lane.packets.empty() || lane.called_at == now - 1;
  if (traffic_ != nullptr) traffic_->create(*this, l, now);
  take_credits(spec.out, now);
  if (!lane.messages.empty()) make_packet(l, now);
  if (!lane.packets.empty()) send_from(l, now);
  if (works || lane.made_at == now) lane.worked_at = now;
}

void Domain::consume(int l, Flit flit, Cycle now) {
  lanes_[static_cast<std::size_t>(l)].worked_at = now;
  send_credit(shape_->lane[static_cast<std::size_t>(l)].in, flit.vc, flit.tail, now + cycles_of(shape_->routers() + l, 1));
  if (!flit.tail) return;
  const Packet& packet = packets_[flit.packet];
  Message& message = messages_[packet.message];
  statistics_.received(packet.injected - packet.made, now - packet.injected, packet.flits, packet.hops);
  if (traffic_ != nullptr) traffic_->received(message, packet, now);
  free_packets_.push_back(flit.packet);
  if (--message.missing == 0) {
    arrived_->push_back(message.number);
    free_messages_.push_back(packet.message);
    --outstanding_;
    steady_.forget();
  }
}

std::uint32_t Domain::new_packet(Message& message, std::uint32_t number, int vnet, Cycle now) {
  std::uint32_t index;
  if (free_packets_.empty()) {
    index = static_cast<std::uint32_t>(packets_.size());
    packets_.emplace_back();
  } else {
    index = free_packets_.back();
    free_packets_.pop_back();
  }
  Packet& packet = packets_[index];
  packet = Packet{};
  packet.message = number;
  packet.made = packet.injected = now;
  packet.destination = message.destination;
  packet.flits = message.unmade == 1 ? message.last_flits : shape_->rules.packet_flits;
  packet.sequence = message.packets - message.unmade;
  packet.vnet = static_cast<std::uint16_t>(vnet);
  return index;
}

// One packet of the oldest message, into an idle virtual channel found round-robin.
void Domain::make_packet(int l, Cycle now) {
  Lane& lane = lanes_[static_cast<std::size_t>(l)];
  const LaneSpec& spec = shape_->lane[static_cast<std::size_t>(l)];
  const Rules& rules = shape_->rules;
  if (!rules.queue_ahead && !lane.packets.empty()) return;
  const std::uint32_t number = lane.messages.front();
  Message& message = messages_[number];
  if (message.ready > now) {
    schedule(shape_->routers() + l, message.ready);
    return;
  }
  int vc = idle_from(spec.out, lane.pointer, rules.vcs);
  if (vc < 0) vc = idle_from(spec.out, 0, lane.pointer);
  if (vc < 0) {
    wait_for_credit(spec.out);
    return;
  }
  lane.pointer = vc + 1 == rules.vcs ? 0 : vc + 1;
  clear_bit(idle(spec.out), vc);
  lane.made_at = now;
  lane.packets.push(new_packet(message, number, spec.vnet, now));
  packet_made_by_ = l;
  lane.vcs.push(static_cast<std::uint16_t>(vc));
  if (--message.unmade == 0) lane.messages.pop();
  if (!lane.messages.empty() && rules.queue_ahead) schedule(shape_->routers() + l, now + 1);
}

// The first virtual channel from `first` on and below `end` that can be given to a packet, or -1.
int Domain::idle_from(int c, int first, int end) const {
  int vc = next_bit(idle(c), first, end);
  if (shape_->rules.queue_ahead) return vc;
  while (vc >= 0 && credits_[vc_index(c, vc)] == 0) vc = next_bit(idle(c), vc + 1, end);
  return vc;
}

// A flit of the oldest packet, if its virtual channel has a credit.
void Domain::send_from(int l, Cycle now) {
  Lane& lane = lanes_[static_cast<std::size_t>(l)];
  const int c = shape_->lane[static_cast<std::size_t>(l)].out;
  const std::uint16_t vc = lane.vcs.front();
  const std::uint32_t index = lane.packets.front();
  std::int32_t& credits = credits_[vc_index(c, vc)];
  if (credits == 0) {
    wait_for_credit(c);
    return;
  }
  Packet& packet = packets_[index];
  --credits;
  Flit flit{0, index, vc, lane.sent == 0, lane.sent == packet.flits - 1};
  if (flit.head) packet.injected = now;
  send_flit(c, flit, now + cycles_of(shape_->routers() + l, 1));
  ++lane.sent;
  lane.sent_at = now;
  if (flit.tail) {
    lane.sent = 0;
    lane.packets.pop();
    lane.vcs.pop();
    if (!shape_->rules.wait_for_tail_credit) set_bit(idle(c), vc);
  }
  if (!lane.packets.empty() || !lane.messages.empty()) schedule(shape_->routers() + l, now + 1);
}

}  // namespace astra::packet
