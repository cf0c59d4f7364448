#include "interfaces/interfaces.hpp"

#include <algorithm>
#include <utility>

#include "traffic/traffic.hpp"

namespace astra::packet {

Interfaces::Interfaces(const Shape& shape, Clock& clock, Channels& channels, InputBuffers& inputs, Messages& messages,
                       Statistics& statistics)
    : shape_(shape),
      clock_(clock),
      channels_(channels),
      inputs_(inputs),
      messages_(messages),
      statistics_(statistics),
      lanes_(shape.lane.size()) {}

void Interfaces::send(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake,
                      Cycle flight) {
  const Rules& rules = shape_->rules;
  const std::int64_t size = std::max<std::int64_t>(bytes, 1);
  const int l = shape_->lane_towards(source, destination, vnet);
  Message message;
  message.packets = (size + rules.packet_bytes - 1) / rules.packet_bytes;
  const std::int64_t last = size - (message.packets - 1) * rules.packet_bytes;
  const auto flits = narrow<std::int32_t>((last + rules.flit_bytes - 1) / rules.flit_bytes);
  message.last_flits = rules.full_last_packet ? rules.packet_flits() : flits;
  message.destination = destination;
  message.created = now;
  message.ready = awake ? now : clock_->edge(unit(l), now) + clock_->cycles_of(unit(l), 1);
  message.number = number;
  message.flight = flight;
  Lane& lane = at(lanes_, l);
  const bool first = lane.messages.empty();
  const std::uint32_t added = messages_->add(message);
  if (rules.in_turn() && clock_->units_differ()) {
    lane.unseen.push(added);
  } else {
    queue(lane, added);
  }
  lane.called_at = now;
  wake(l, now + 1);
  if (!awake || !first || lane.made_at == now) return;
  channels_->take_credits(at(shape_->lane, l).out, now);
  make_packet(l, now);
  if (lane.sent_at != now && !lane.packets.empty()) send_flit(l, now);
}

void Interfaces::queue(Lane& lane, std::uint32_t number) {
  if (shape_->rules.in_turn()) {
    const auto [newest, alone] = lane.newest.try_emplace(messages_->message(number).destination, number);
    if (!alone) {
      messages_->message(std::exchange(newest->second, number)).behind = number;
      return;
    }
  }
  lane.messages.push(number);
}

void Interfaces::see(int l, Cycle now) {
  Lane& lane = at(lanes_, l);
  for (; !lane.unseen.empty(); lane.unseen.pop()) {
    const Cycle ready = messages_->message(lane.unseen.front()).ready;
    if (ready > now) return wake(l, ready);
    queue(lane, lane.unseen.front());
  }
}

bool Interfaces::awake(int l, Cycle now) const {
  const Lane& lane = at(lanes_, l);
  if (lane.worked_at == now || !lane.packets.empty()) return true;
  return channels_->credit_usable_in(at(shape_->lane, l).out, now + shape_->rules.interface_credit_delay());
}

void Interfaces::create(Cycle created, int lane, int destination, int flits) {
  Message message;
  message.packets = 1;
  message.destination = destination;
  message.last_flits = flits;
  message.created = message.ready = created;
  at(lanes_, lane).messages.push(messages_->add(message));
}

void Interfaces::drop_messages() {
  for (Lane& lane : lanes_) {
    for (; !lane.messages.empty(); lane.messages.pop()) messages_->drop_rest(lane.messages.front());
    lane.newest.clear();
  }
}

int Interfaces::packet_maker() const {
  const auto last = std::find_if(packet_makers_.rbegin(), packet_makers_.rend(), [](int lane) { return lane >= 0; });
  return last == packet_makers_.rend() ? -1 : *last;
}

std::int64_t Interfaces::unmade(int lane) const {
  const RingBuffer<std::uint32_t>& queue = at(lanes_, lane).messages;
  return queue.empty() ? 0 : messages_->message(queue.front()).unmade;
}

void Interfaces::run(int l, Cycle now) {
  Lane& lane = at(lanes_, l);
  const bool works = !lane.packets.empty() || lane.called_at == now - 1;
  if (traffic_ != nullptr) traffic_->look(*this, l, now);
  channels_->take_credits(at(shape_->lane, l).out, now);
  if (!lane.unseen.empty()) see(l, now);
  if (!lane.messages.empty()) make_packet(l, now);
  if (!lane.packets.empty()) send_flit(l, now);
  if (works || lane.made_at == now) lane.worked_at = now;
}

void Interfaces::receive(int l, const Flit& flit, Cycle now) {
  at(lanes_, l).worked_at = now;
  channels_->send_credit(at(shape_->lane, l).in, flit.vc, flit.tail, now + clock_->cycles_of(unit(l), 1));
  if (!flit.tail) return;
  const Packet& packet = messages_->packet(flit.packet);
  const int thread = clock_->thread_of(unit(l));
  statistics_->received(thread, packet.injected - packet.created, now - packet.injected, packet.flits, packet.hops);
  if (traffic_ != nullptr) traffic_->received(thread, messages_->message(packet.message), packet, now);
  messages_->receive_packet(thread, flit.packet);
}

void Interfaces::make_packet(int l, Cycle now) {
  Lane& lane = at(lanes_, l);
  const LaneSpec& spec = at(shape_->lane, l);
  const Rules& rules = shape_->rules;
  if (!rules.queue_ahead() && !lane.packets.empty()) return;
  const std::uint32_t number = lane.messages.front();
  const Message& message = messages_->message(number);
  if (message.ready > now) {
    wake(l, message.ready);
    return;
  }
  int vc = idle_from(spec.out, lane.pointer, rules.vcs);
  if (vc < 0) vc = idle_from(spec.out, 0, lane.pointer);
  if (vc < 0) {
    channels_->wait_for_credit(spec.out);
    return;
  }
  lane.pointer = vc + 1 == rules.vcs ? 0 : vc + 1;
  channels_->give_vc(spec.out, vc);
  lane.made_at = now;
  const int thread = clock_->thread_of(unit(l));
  lane.packets.push(messages_->make_packet(thread, number, spec.vnet, now));
  at(packet_makers_, thread) = l;
  lane.vcs.push(narrow<std::uint16_t>(vc));
  if (message.unmade == 0 || rules.in_turn()) lane.messages.pop();
  if (rules.in_turn()) {
    const std::uint32_t next = message.unmade > 0 ? number : message.behind;
    if (next != kNoMessage) {
      lane.messages.push(next);
    } else if (!lane.newest.empty()) {
      lane.newest.erase(message.destination);
    }
  }
  if (!lane.messages.empty() && rules.queue_ahead()) wake(l, now + 1);
}

int Interfaces::idle_from(int c, int first, int end) const {
  const std::uint64_t* const idle = channels_->idle(c);
  int vc = next_bit(idle, first, end);
  if (shape_->rules.queue_ahead()) return vc;
  while (vc >= 0 && channels_->credits(c, vc) == 0) vc = next_bit(idle, vc + 1, end);
  return vc;
}

void Interfaces::send_flit(int l, Cycle now) {
  Lane& lane = at(lanes_, l);
  const int c = at(shape_->lane, l).out;
  const std::uint16_t vc = lane.vcs.front();
  const std::uint32_t number = lane.packets.front();
  if (channels_->credits(c, vc) == 0) {
    channels_->wait_for_credit(c);
    return;
  }
  Packet& packet = messages_->packet(number);
  channels_->use_credit(c, vc);
  const Flit flit{0, number, vc, lane.sent == 0, lane.sent == packet.flits - 1};
  if (flit.head) packet.injected = now;
  inputs_->send_flit(c, flit, vc, now + clock_->cycles_of(unit(l), 1));
  ++lane.sent;
  lane.sent_at = now;
  if (flit.tail) {
    lane.sent = 0;
    messages_->leave_source(clock_->thread_of(unit(l)), number, now);
    lane.packets.pop();
    lane.vcs.pop();
    if (!shape_->rules.waits_for_tail_credit()) channels_->free_vc(c, vc);
  }
  if (!lane.packets.empty() || !lane.messages.empty()) wake(l, now + 1);
}

void Interfaces::snapshot(Snapshot& snapshot) const {
  const Cycle now = snapshot.now();
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    const VcTurn& turn = snapshot.turn(shape_->lane[l].out);
    snapshot.put(turn.back(lane.pointer));
    snapshot.put(lane.sent);
    snapshot.put((lane.worked_at == now) | (lane.made_at == now) << 1 | (lane.sent_at == now) << 2 | (lane.called_at == now) << 3);
    snapshot.put(lane.messages.size());
    snapshot.put(lane.unseen.size());
    snapshot.put(lane.packets.size());
    for (std::uint32_t i = 0; i < lane.messages.size(); ++i) snapshot.put(lane.messages[i]);
    for (std::uint32_t i = 0; i < lane.packets.size(); ++i) {
      messages_->snapshot_packet(snapshot, lane.packets[i]);
      snapshot.put(turn.back(lane.vcs[i]));
    }
  }
}

std::vector<VcTurn> Interfaces::vc_rotations() const {
  std::vector<VcTurn> result;
  for (int c = 0; c < shape_->channels(); ++c) result.push_back({0, shape_->vc_count(c)});
  if (!shape_->rules.queue_ahead()) return result;
  for (std::size_t l = 0; l < lanes_.size(); ++l) at(result, shape_->lane[l].out).first = lanes_[l].pointer;
  return result;
}

void Interfaces::shift(Cycle later) {
  for (Lane& lane : lanes_) {
    lane.called_at += later;
    lane.worked_at += later;
    lane.made_at += later;
    lane.sent_at += later;
  }
}

void Interfaces::turn(int l, const VcTurn& turn) {
  Lane& lane = at(lanes_, l);
  for (std::uint32_t i = 0; i < lane.vcs.size(); ++i) lane.vcs[i] = narrow<std::uint16_t>(turn.back(lane.vcs[i]));
  lane.pointer = turn.back(lane.pointer);
}

}  // namespace astra::packet
