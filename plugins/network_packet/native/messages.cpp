#include "messages.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace astra::packet {

namespace {

// The number of a free place in a pool, which grows if there is none.
template <class Item>
std::uint32_t place_in(std::vector<Item>& pool, std::vector<std::uint32_t>& free) {
  if (free.empty()) {
    pool.emplace_back();
    return narrow<std::uint32_t>(pool.size() - 1);
  }
  const std::uint32_t number = free.back();
  free.pop_back();
  return number;
}

}  // namespace

std::uint32_t Messages::add(Message message) {
  message.unmade = message.missing = message.packets;
  const std::uint32_t number = place_in(messages_, free_messages_);
  messages_[number] = message;
  ++outstanding_;
  return number;
}

void Messages::drop_rest(std::uint32_t number) {
  Message& message = messages_[number];
  message.missing -= std::exchange(message.unmade, 0);
  if (message.missing > 0) return;
  free_messages_.push_back(number);
  --outstanding_;
}

std::uint32_t Messages::make_packet(std::uint32_t of, int vnet, Cycle now) {
  const std::uint32_t number = place_in(packets_, free_packets_);
  Message& message = messages_[of];
  Packet& packet = packets_[number];
  packet = Packet{};
  packet.message = of;
  packet.made = packet.injected = now;
  packet.destination = message.destination;
  packet.flits = message.unmade == 1 ? message.last_flits : packet_flits_;
  packet.sequence = message.packets - message.unmade;
  packet.vnet = narrow<std::uint16_t>(vnet);
  --message.unmade;
  return number;
}

void Messages::leave_source(std::uint32_t number, Cycle now) {
  const Packet& packet = packets_[number];
  Message& message = messages_[packet.message];
  if (message.flight == 0 || packet.sequence + 1 < message.packets) return;
  message.landing = now + message.flight;
  ++landings_[message.landing];
}

void Messages::receive_packet(std::uint32_t number) {
  const std::uint32_t of = packets_[number].message;
  free_packets_.push_back(number);
  if (--messages_[of].missing > 0) return;
  if (messages_[of].landing > 0) {
    const auto landing = landings_.find(messages_[of].landing);
    if (--landing->second == 0) landings_.erase(landing);
  }
  arrived_.push_back(messages_[of].number);
  free_messages_.push_back(of);
  --outstanding_;
}

bool Messages::take_arrived(std::vector<std::uint64_t>& arrived) {
  if (arrived_.empty()) return false;
  arrived.insert(arrived.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  return true;
}

void Messages::clear() {
  packets_.clear();
  free_packets_.clear();
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
  const Packet& packet = packets_[number];
  const Message& message = messages_[packet.message];
  snapshot.put(packet.message);
  snapshot.put(message.packets - message.unmade - packet.sequence);
  snapshot.put(packet.flits | wide(packet.hops) << 32);
  snapshot.put(packet.vc_class);
  snapshot.time(packet.made);
  snapshot.time(packet.injected);
}

void Messages::snapshot_flit(Snapshot& snapshot, const Flit& flit, const VcTurn& turn) const {
  snapshot.put((flit.time - snapshot.now()) * (1 << 18) + (turn.back(flit.vc) | (flit.head ? 1 << 16 : 0) | (flit.tail ? 1 << 17 : 0)));
  if (flit.tail) snapshot_packet(snapshot, flit.packet);
}

std::vector<std::int64_t> Messages::unmade() const {
  std::vector<std::int64_t> found;
  for (const Message& message : messages_) found.push_back(message.unmade);
  return found;
}

std::int64_t Messages::repetitions(const std::vector<std::int64_t>& before) const {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool progress = false;
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    const std::int64_t made = before[m] - messages_[m].unmade;
    if (made == 0) continue;
    progress = true;
    most = std::min(most, (messages_[m].unmade - 2) / made);
  }
  return progress ? most : 0;
}

void Messages::repeat(const std::vector<std::int64_t>& before, std::int64_t count, Cycle later) {
  std::vector<std::int64_t> made(messages_.size());
  for (std::size_t m = 0; m < made.size(); ++m) {
    made[m] = count * (before[m] - messages_[m].unmade);
    messages_[m].unmade -= made[m];
    messages_[m].missing -= made[m];
  }
  for (Packet& packet : packets_) {
    packet.sequence += made[packet.message];
    packet.made += later;
    packet.injected += later;
  }
}

}  // namespace astra::packet
