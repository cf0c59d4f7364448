#include "interfaces/messages.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace astra::packet {

std::uint32_t Messages::add(Message message) {
  message.unmade = message.missing = message.packets;
  ++outstanding_;
  if (free_messages_.empty()) {
    messages_.push_back(message);
    return narrow<std::uint32_t>(messages_.size() - 1);
  }
  const std::uint32_t number = free_messages_.back();
  free_messages_.pop_back();
  messages_[number] = message;
  return number;
}

void Messages::drop_rest(std::uint32_t number) {
  Message& message = messages_[number];
  message.missing -= std::exchange(message.unmade, 0);
  if (message.missing > 0) return;
  free_messages_.push_back(number);
  --outstanding_;
}

std::uint32_t Messages::make_packet(int thread, std::uint32_t of, int vnet, Cycle now) {
  const std::uint32_t number = packets_->take(thread);
  Message& message = messages_[of];
  Packet& packet = (*packets_)[number];
  packet = Packet{};
  packet.message = of;
  packet.created = packet.injected = now;
  packet.destination = message.destination;
  packet.flits = message.unmade == 1 ? message.last_flits : packet_flits_;
  packet.sequence = message.packets - message.unmade;
  packet.vnet = narrow<std::uint16_t>(vnet);
  --message.unmade;
  return number;
}

void Messages::leave_source(int thread, std::uint32_t number, Cycle now) {
  const Packet& of = (*packets_)[number];
  Message& message = messages_[of.message];
  if (message.flight == 0 || of.sequence + 1 < message.packets) return;
  message.landing = now + message.flight;
  at(work_, thread).departed.push_back(message.landing);
}

void Messages::receive_packet(int thread, std::uint32_t number) {
  const std::uint32_t of = (*packets_)[number].message;
  packets_->give_back(thread, number);
  Message& message = messages_[of];
  if (--message.missing > 0) return;
  Work& work = at(work_, thread);
  if (message.landing > 0) work.landed.push_back(message.landing);
  work.arrived.push_back(of);
}

void Messages::settle() {
  for (Work& work : work()) {
    for (Cycle landing : work.departed) ++landings_[landing];
    work.departed.clear();
  }
  for (Work& work : work()) {
    for (Cycle landing : work.landed) {
      const auto entry = landings_.find(landing);
      if (--entry->second == 0) landings_.erase(entry);
    }
    for (std::uint32_t number : work.arrived) {
      arrived_.push_back(messages_[number].number);
      free_messages_.push_back(number);
    }
    outstanding_ -= wide(work.arrived.size());
    work.landed.clear();
    work.arrived.clear();
  }
}

bool Messages::take_arrived(std::vector<std::uint64_t>& arrived) {
  if (arrived_.empty()) return false;
  arrived.insert(arrived.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  return true;
}

void Messages::clear() {
  messages_.clear();
  free_messages_.clear();
}

void Messages::snapshot(Snapshot& snapshot) const {
  for (const Message& message : messages_) {
    snapshot.put(message.missing - message.unmade);
    snapshot.put(message.unmade > 0);
  }
}

void Messages::snapshot_packet(Snapshot& snapshot, std::uint32_t number) const {
  const Packet& of = (*packets_)[number];
  const Message& message = messages_[of.message];
  snapshot.put(of.message);
  snapshot.put(message.packets - message.unmade - of.sequence);
  snapshot.put(of.flits | wide(of.hops) << 32);
  snapshot.put(of.vc_class);
  snapshot.time(of.created);
  snapshot.time(of.injected);
}

void Messages::snapshot_flit(Snapshot& snapshot, const Flit& flit, const VcTurn& turn) const {
  snapshot.put((flit.time - snapshot.now()) * (1 << 18) + (turn.back(flit.vc) | (flit.head ? 1 << 16 : 0) | (flit.tail ? 1 << 17 : 0)));
  if (flit.tail) snapshot_packet(snapshot, flit.packet);
}

std::vector<std::int64_t> Messages::unmade() const {
  std::vector<std::int64_t> entry;
  for (const Message& message : messages_) entry.push_back(message.unmade);
  return entry;
}

std::int64_t Messages::repetitions(const std::vector<std::int64_t>& before) const {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool progress = false;
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    const std::int64_t created = before[m] - messages_[m].unmade;
    if (created == 0) continue;
    progress = true;
    most = std::min(most, (messages_[m].unmade - 2) / created);
  }
  return progress ? most : 0;
}

void Messages::repeat(const std::vector<std::int64_t>& before, std::int64_t count, Cycle later) {
  std::vector<std::int64_t> created(messages_.size());
  for (std::size_t m = 0; m < created.size(); ++m) {
    created[m] = count * (before[m] - messages_[m].unmade);
    messages_[m].unmade -= created[m];
    messages_[m].missing -= created[m];
  }
  packets_->each([&](Packet& packet) {
    packet.sequence += created[packet.message];
    packet.created += later;
    packet.injected += later;
  });
}

}  // namespace astra::packet
