// Messages that are under way, by number. A message is cut into packets by its source, and has arrived when its destination has received
// the last flit of every packet.
//
// Several threads (see thread_team.hpp) may make and receive packets at the same time. Changes of one that others see take
// effect when `settle` is called, between windows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "interfaces/packets.hpp"
#include "replay/snapshot.hpp"

namespace astra::packet {

class Messages {
 public:
  Messages(int packet_flits, Packets& packets) : packet_flits_(packet_flits), packets_(packets) {}

  // A new message of which all packets are still to be made. Returns its number.
  std::uint32_t add(Message message);
  Message& message(std::uint32_t number) { return messages_[number]; }
  const Message& message(std::uint32_t number) const { return messages_[number]; }
  // Packets of it that are not made will not be.
  void drop_rest(std::uint32_t number);

  // The next packet of a message. Returns its number.
  std::uint32_t make_packet(int thread, std::uint32_t message, int vnet, Cycle now);
  // The last flit of a packet has reached its destination.
  void receive_packet(int thread, std::uint32_t number);

  // The last flit of a packet has left its source in cycle `now`.
  void leave_source(int thread, std::uint32_t number, Cycle now);
  // The threads' work takes effect.
  void settle();
  // No message arrives before this cycle whose last flit has left its source, of those with a `flight`; kNever: there is none.
  Cycle soonest_arrival() const { return landings_.empty() ? kNever : landings_.begin()->first; }

  // So many threads make and receive packets from now on.
  void employ(int threads) { threads_ = std::max(threads_, threads); }

  // Messages that have not arrived.
  std::int64_t outstanding() const { return outstanding_; }
  // Appends the senders' numbers (Message::number) of messages that have arrived since the last call. Returns whether there are any.
  bool take_arrived(std::vector<std::uint64_t>& arrived);
  // Forgets the room that messages had which have all arrived.
  void clear();

  // For the finder of steady states: messages, without how many packets they have still to make; and a packet, which is described where its
  // last flit is: with that, or in the interface that has not sent it yet. The other flits come before it on its way, which virtual
  // channels give.
  void snapshot(Snapshot& snapshot) const;
  void snapshot_packet(Snapshot& snapshot, std::uint32_t number) const;
  // A flit on a link or in a buffer whose virtual channels are counted by `turn`.
  void snapshot_flit(Snapshot& snapshot, const Flit& flit, const VcTurn& turn) const;
  // Messages that there is room for.
  std::size_t count() const { return messages_.size(); }
  // By message, packets that are still to be made.
  std::vector<std::int64_t> unmade() const;
  // How often the events since `before` can be repeated before a message comes to its last packets; 0 if no packet was
  // made.
  std::int64_t repetitions(const std::vector<std::int64_t>& before) const;
  // It has happened `count` times more, and the cycle is `later`.
  void repeat(const std::vector<std::int64_t>& before, std::int64_t count, Cycle later);

 private:
  // A thread's work since the last window.
  struct alignas(64) Work {
    std::vector<std::uint32_t> arrived;  // messages
    std::vector<Cycle> departed;         // landings of messages that have left their sources,
    std::vector<Cycle> landed;           // and of those that have arrived
  };

  std::span<Work> work() { return std::span(work_).first(index(threads_)); }

  int packet_flits_;
  Neighbour<Packets> packets_;
  std::array<Work, Packets::kThreads> work_;
  int threads_ = 1;  // that have done anything so far
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  std::vector<std::uint64_t> arrived_;
  std::map<Cycle, int> landings_;  // by cycle: messages that can arrive then at the soonest
  std::int64_t outstanding_ = 0;
};

}  // namespace astra::packet
