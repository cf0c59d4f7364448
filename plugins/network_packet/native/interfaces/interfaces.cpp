#include "interfaces/interfaces.hpp"

#include <algorithm>

#include "traffic/traffic.hpp"

namespace astra::packet {

Interfaces::Interfaces(const Shape& shape, Clock& clock, CreditChannels& credits, InputBuffers& inputs, Packets& packets,
                       Messages& messages, Statistics& statistics)
    : shape_(shape),
      clock_(clock),
      credits_(credits),
      inputs_(inputs),
      packets_(packets),
      messages_(messages),
      statistics_(statistics),
      injection_ports_(shape.injection_port.size()) {}

void Interfaces::send(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake,
                      Cycle flight) {
  const Rules& rules = shape_->rules;
  const std::int64_t size = std::max<std::int64_t>(bytes, 1);
  const int l = shape_->injection_port_towards(source, destination, vnet);
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
  InjectionPort& injection_port = at(injection_ports_, l);
  const bool first = injection_port.messages.empty();
  const std::uint32_t added = messages_->add(message);
  if (!rules.in_turn()) {
    injection_port.messages.add(added);
  } else if (clock_->units_differ()) {
    injection_port.messages.add_unseen(added);
  } else {
    injection_port.messages.add_in_turn(added, *messages_);
  }
  injection_port.called_at = now;
  wake(l, now + 1);
  if (!awake || !first || injection_port.made_at == now) return;
  credits_->take(at(shape_->injection_port, l).out, now);
  make_packet(l, now);
  if (injection_port.sent_at != now && !injection_port.packets.empty()) send_flit(l, now);
}

bool Interfaces::awake(int l, Cycle now) const {
  const InjectionPort& injection_port = at(injection_ports_, l);
  if (injection_port.worked_at == now || !injection_port.packets.empty()) return true;
  return credits_->usable_in(at(shape_->injection_port, l).out, now + shape_->rules.interface_credit_delay());
}

void Interfaces::create(Cycle created, int injection_port, int destination, int flits) {
  Message message;
  message.packets = 1;
  message.destination = destination;
  message.last_flits = flits;
  message.created = message.ready = created;
  at(injection_ports_, injection_port).messages.add(messages_->add(message));
}

void Interfaces::drop_messages() {
  for (InjectionPort& injection_port : injection_ports_) injection_port.messages.drop(*messages_);
}

int Interfaces::packet_maker() const {
  const auto last = std::find_if(packet_makers_.rbegin(), packet_makers_.rend(), [](int injection_port) { return injection_port >= 0; });
  return last == packet_makers_.rend() ? -1 : *last;
}

std::int64_t Interfaces::unmade(int injection_port) const {
  const MessageQueue& queue = at(injection_ports_, injection_port).messages;
  return queue.empty() ? 0 : messages_->message(queue.front()).unmade;
}

void Interfaces::run(int l, Cycle now) {
  InjectionPort& injection_port = at(injection_ports_, l);
  const bool works = !injection_port.packets.empty() || injection_port.called_at == now - 1;
  if (traffic_ != nullptr) traffic_->look(*this, l, now);
  credits_->take(at(shape_->injection_port, l).out, now);
  if (injection_port.messages.unseen() > 0) {
    const Cycle next = injection_port.messages.see(now, *messages_);
    if (next != kNever) wake(l, next);
  }
  if (!injection_port.messages.empty()) make_packet(l, now);
  if (!injection_port.packets.empty()) send_flit(l, now);
  if (works || injection_port.made_at == now) injection_port.worked_at = now;
}

void Interfaces::receive(int l, const Flit& flit, Cycle now) {
  at(injection_ports_, l).worked_at = now;
  credits_->send(at(shape_->injection_port, l).in, flit.vc, flit.tail, now + clock_->cycles_of(unit(l), 1));
  if (!flit.tail) return;
  const Packet& packet = (*packets_)[flit.packet];
  const int thread = clock_->thread_of(unit(l));
  statistics_->received(thread, packet.injected - packet.created, now - packet.injected, packet.flits, packet.hops);
  if (traffic_ != nullptr) traffic_->received(thread, messages_->message(packet.message), packet, now);
  messages_->receive_packet(thread, flit.packet);
}

void Interfaces::make_packet(int l, Cycle now) {
  InjectionPort& injection_port = at(injection_ports_, l);
  const InjectionPortSpec& spec = at(shape_->injection_port, l);
  const Rules& rules = shape_->rules;
  if (!rules.queue_ahead() && !injection_port.packets.empty()) return;
  const std::uint32_t number = injection_port.messages.front();
  const Message& message = messages_->message(number);
  if (message.ready > now) {
    wake(l, message.ready);
    return;
  }
  int vc = idle_from(spec.out, injection_port.pointer, rules.vcs);
  if (vc < 0) vc = idle_from(spec.out, 0, injection_port.pointer);
  if (vc < 0) {
    credits_->wait_for_credit(spec.out, now);
    return;
  }
  injection_port.pointer = vc + 1 == rules.vcs ? 0 : vc + 1;
  credits_->give_vc(spec.out, vc);
  injection_port.made_at = now;
  const int thread = clock_->thread_of(unit(l));
  injection_port.packets.push(messages_->make_packet(thread, number, spec.vnet, now));
  at(packet_makers_, thread) = l;
  injection_port.vcs.push(narrow<std::uint16_t>(vc));
  rules.in_turn() ? injection_port.messages.pass_turn(*messages_) : injection_port.messages.pass(*messages_);
  if (!injection_port.messages.empty() && rules.queue_ahead()) wake(l, now + 1);
}

int Interfaces::idle_from(int c, int first, int end) const {
  const std::uint64_t* const idle = credits_->idle(c);
  int vc = next_bit(idle, first, end);
  if (shape_->rules.queue_ahead()) return vc;
  while (vc >= 0 && credits_->count(c, vc) == 0) vc = next_bit(idle, vc + 1, end);
  return vc;
}

void Interfaces::send_flit(int l, Cycle now) {
  InjectionPort& injection_port = at(injection_ports_, l);
  const int c = at(shape_->injection_port, l).out;
  const std::uint16_t vc = injection_port.vcs.front();
  const std::uint32_t number = injection_port.packets.front();
  if (credits_->count(c, vc) == 0) {
    credits_->wait_for_credit(c, now);
    return;
  }
  Packet& packet = (*packets_)[number];
  credits_->use(c, vc);
  const Flit flit{0, number, vc, injection_port.sent == 0, injection_port.sent == packet.flits - 1};
  if (flit.head) packet.injected = now;
  inputs_->send_flit(c, flit, vc, now + clock_->cycles_of(unit(l), 1));
  ++injection_port.sent;
  injection_port.sent_at = now;
  if (flit.tail) {
    injection_port.sent = 0;
    messages_->leave_source(clock_->thread_of(unit(l)), number, now);
    injection_port.packets.pop();
    injection_port.vcs.pop();
    if (!shape_->rules.waits_for_tail_credit()) credits_->free_vc(c, vc);
  }
  if (!injection_port.packets.empty() || !injection_port.messages.empty()) wake(l, now + 1);
}

void Interfaces::snapshot(Snapshot& snapshot) const {
  const Cycle now = snapshot.now();
  for (std::size_t l = 0; l < injection_ports_.size(); ++l) {
    const InjectionPort& injection_port = injection_ports_[l];
    const VcTurn& turn = snapshot.turn(shape_->injection_port[l].out);
    snapshot.put(turn.back(injection_port.pointer));
    snapshot.put(injection_port.sent);
    snapshot.put((injection_port.worked_at == now) | (injection_port.made_at == now) << 1 | (injection_port.sent_at == now) << 2 |
                 (injection_port.called_at == now) << 3);
    snapshot.put(injection_port.messages.size());
    snapshot.put(injection_port.messages.unseen());
    snapshot.put(injection_port.packets.size());
    for (std::uint32_t i = 0; i < injection_port.messages.size(); ++i) snapshot.put(injection_port.messages[i]);
    for (std::uint32_t i = 0; i < injection_port.packets.size(); ++i) {
      messages_->snapshot_packet(snapshot, injection_port.packets[i]);
      snapshot.put(turn.back(injection_port.vcs[i]));
    }
  }
}

std::vector<VcTurn> Interfaces::vc_rotations() const {
  std::vector<VcTurn> result;
  for (int c = 0; c < shape_->channels(); ++c) result.push_back({0, shape_->vc_count(c)});
  if (!shape_->rules.queue_ahead()) return result;
  for (std::size_t l = 0; l < injection_ports_.size(); ++l) at(result, shape_->injection_port[l].out).first = injection_ports_[l].pointer;
  return result;
}

void Interfaces::shift(Cycle later) {
  for (InjectionPort& injection_port : injection_ports_) {
    injection_port.called_at += later;
    injection_port.worked_at += later;
    injection_port.made_at += later;
    injection_port.sent_at += later;
  }
}

void Interfaces::turn(int l, const VcTurn& turn) {
  InjectionPort& injection_port = at(injection_ports_, l);
  for (std::uint32_t i = 0; i < injection_port.vcs.size(); ++i)
    injection_port.vcs[i] = narrow<std::uint16_t>(turn.back(injection_port.vcs[i]));
  injection_port.pointer = turn.back(injection_port.pointer);
}

}  // namespace astra::packet
