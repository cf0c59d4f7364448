// The queues of the ports of switches: eight each, served in turn but for queue 0, which goes first and is never paused.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "large_array.hpp"
#include "packets.hpp"
#include "snapshot.hpp"
#include "types.hpp"

namespace astra::roce {

class OutputQueues {
 public:
  OutputQueues(std::size_t ports, Packets& packets) : packets_(packets), ports_(ports) {}

  std::int64_t bytes(LinkId port) const { return ports_[port].bytes; }
  std::int64_t bytes(LinkId port, std::uint32_t queue) const { return ports_[port].queue(queue).bytes; }
  std::int64_t highest(LinkId port) const { return std::max(ports_[port].highest_before, ports_[port].highest); }
  // The highest since `start_peaks`.
  std::int64_t peak(LinkId port) const { return ports_[port].highest; }
  void start_peaks() {
    for (Port& port : ports_) {
      port.highest_before = std::max(port.highest_before, port.highest);
      port.highest = 0;
    }
  }
  // Count the bytes known to have waited at a port.
  void raise(LinkId port, std::int64_t bytes) { ports_[port].highest_before = std::max(ports_[port].highest_before, bytes); }
  std::uint32_t waiting(LinkId port) const { return ports_[port].packets; }
  bool is_paused(LinkId port, std::uint32_t queue) const { return (ports_[port].paused >> queue & 1) != 0; }
  bool holds(LinkId port, std::uint32_t queue) const { return !ports_[port].queue(queue).packets.empty(); }
  const Fifo& queue(LinkId port, std::uint32_t queue) const { return ports_[port].queue(queue).packets; }

  void pause(LinkId port, std::uint32_t queue) { ports_[port].paused |= static_cast<std::uint8_t>(1U << queue); }
  void resume(LinkId port, std::uint32_t queue) { ports_[port].paused &= static_cast<std::uint8_t>(~(1U << queue)); }

  void push(LinkId port, std::uint32_t queue, PacketId id) {
    Port& at = ports_[port];
    const std::uint32_t bytes = packets_[id].bytes;
    Queue& to = at.queue(queue);
    to.packets.push(packets_, id);
    to.bytes += bytes;
    at.filled |= static_cast<std::uint8_t>(1U << queue);
    at.bytes += bytes;
    at.packets += 1;
    if (at.bytes > at.highest) at.highest = at.bytes;
  }

  // Whether a packet that came to a queue now would be the next, alone.
  bool would_be_next(LinkId port, std::uint32_t queue) const {
    return ports_[port].packets == 0 && (queue == 0 || (ports_[port].paused >> queue & 1) == 0);
  }
  // Such a packet comes and is sent at once: as if it were pushed and popped.
  void pass(LinkId port, std::uint32_t queue, std::uint32_t bytes) {
    Port& at = ports_[port];
    if (bytes > at.highest) at.highest = bytes;
    if (queue != 0) at.last = static_cast<std::uint8_t>(queue);
  }

  // The next packet that may be sent, taken out; kNone if there is none.
  PacketId pop(LinkId port) {
    Port& at = ports_[port];
    if ((at.filled & 1) != 0) return take(at, 0);
    const unsigned ready = at.filled & ~static_cast<unsigned>(at.paused);
    if (ready == 0) return kNone;
    const unsigned after = ready & ~0U << (at.last + 1);
    const auto queue = static_cast<std::uint32_t>(std::countr_zero(after != 0 ? after : ready));
    at.last = static_cast<std::uint8_t>(queue);
    return take(at, queue);
  }

  // The first packet of a queue, taken out, paused or not; kNone if it is empty.
  PacketId drain(LinkId port, std::uint32_t queue) { return holds(port, queue) ? take(ports_[port], queue) : kNone; }

  // When they are empty.
  void snapshot(LinkId port, Snapshot& snapshot) const {
    snapshot.put(ports_[port].last);
    snapshot.put(ports_[port].paused);
  }

  // For prefetching: the state of ports, each of `kBytes`.
  static constexpr std::size_t kBytes = 192;
  const void* data() const { return ports_.data(); }

 private:
  struct Queue {
    Fifo packets{};
    std::int64_t bytes = 0;
  };
  struct alignas(64) Port {
    std::int64_t bytes = 0;
    std::int64_t highest = 0;
    std::int64_t highest_before = 0;
    std::uint32_t packets = 0;
    std::uint8_t last = 0;    // the queue that was served last
    std::uint8_t filled = 0;  // queues that are not empty
    std::uint8_t paused = 0;
    std::array<Queue, kQueues> queues{};  // from the usual group on, which is in the same line of the cache

    Queue& queue(std::uint32_t number) { return queues[(number - kUsualGroup) % kQueues]; }
    const Queue& queue(std::uint32_t number) const { return queues[(number - kUsualGroup) % kQueues]; }
  };

  static_assert(sizeof(Port) == kBytes);

  PacketId take(Port& at, std::uint32_t queue) {
    Queue& from = at.queue(queue);
    const PacketId id = from.packets.pop(packets_);
    if (from.packets.empty()) {
      at.filled &= static_cast<std::uint8_t>(~(1U << queue));
    } else {
      packets_.prefetch(from.packets.first);
    }
    at.bytes -= packets_[id].bytes;
    from.bytes -= packets_[id].bytes;
    at.packets -= 1;
    return id;
  }

  Packets& packets_;
  LargeArray<Port> ports_;
};

}  // namespace astra::roce
