// The queues of the ports of switches: eight each, served in turn but for queue 0, which goes first and is never paused.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "packets.hpp"
#include "types.hpp"

namespace astra::roce {

class OutputQueues {
 public:
  OutputQueues(std::size_t ports, Packets& packets) : packets_(packets), ports_(ports) {}

  std::int64_t bytes(LinkId port) const { return ports_[port].bytes; }
  std::int64_t bytes(LinkId port, std::uint32_t queue) const { return ports_[port].bytes_of[queue]; }
  std::int64_t highest(LinkId port) const { return ports_[port].highest; }
  std::uint32_t waiting(LinkId port) const { return ports_[port].packets; }
  bool is_paused(LinkId port, std::uint32_t queue) const { return (ports_[port].paused >> queue & 1) != 0; }
  bool holds(LinkId port, std::uint32_t queue) const { return !ports_[port].queues[queue].empty(); }
  const Fifo& queue(LinkId port, std::uint32_t queue) const { return ports_[port].queues[queue]; }

  void pause(LinkId port, std::uint32_t queue) { ports_[port].paused |= static_cast<std::uint8_t>(1U << queue); }
  void resume(LinkId port, std::uint32_t queue) { ports_[port].paused &= static_cast<std::uint8_t>(~(1U << queue)); }

  void push(LinkId port, std::uint32_t queue, PacketId id) {
    Port& at = ports_[port];
    at.queues[queue].push(packets_, id);
    at.filled |= static_cast<std::uint8_t>(1U << queue);
    at.bytes += packets_[id].bytes;
    at.bytes_of[queue] += packets_[id].bytes;
    at.packets += 1;
    if (at.bytes > at.highest) at.highest = at.bytes;
  }

  // The next packet that may be sent, taken out; kNone where there is none.
  PacketId pop(LinkId port) {
    Port& at = ports_[port];
    if ((at.filled & 1) != 0) return take(at, 0);
    const unsigned ready = at.filled & ~static_cast<unsigned>(at.paused);
    if (ready == 0) return kNone;
    for (std::uint32_t step = 1; step <= kQueues; ++step) {
      const std::uint32_t queue = (at.last + step) % kQueues;
      if (queue != 0 && (ready >> queue & 1) != 0) {
        at.last = queue;
        return take(at, queue);
      }
    }
    return kNone;
  }

  // The first packet of a queue, taken out, paused or not; kNone where it is empty.
  PacketId drain(LinkId port, std::uint32_t queue) { return holds(port, queue) ? take(ports_[port], queue) : kNone; }

 private:
  struct Port {
    std::array<Fifo, kQueues> queues{};
    std::array<std::int64_t, kQueues> bytes_of{};
    std::int64_t bytes = 0;
    std::int64_t highest = 0;
    std::uint32_t packets = 0;
    std::uint32_t last = 0;  // the queue that was served last
    std::uint8_t filled = 0;
    std::uint8_t paused = 0;
  };

  PacketId take(Port& at, std::uint32_t queue) {
    const PacketId id = at.queues[queue].pop(packets_);
    if (at.queues[queue].empty()) at.filled &= static_cast<std::uint8_t>(~(1U << queue));
    at.bytes -= packets_[id].bytes;
    at.bytes_of[queue] -= packets_[id].bytes;
    at.packets -= 1;
    return id;
  }

  Packets& packets_;
  std::vector<Port> ports_;
};

}  // namespace astra::roce
