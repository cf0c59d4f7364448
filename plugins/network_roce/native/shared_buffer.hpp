// The memory of a switch that its ports share, and when a port must pause its peer (IEEE 802.1Qbb, with a threshold that falls as the
// memory fills).
//
// Bytes are counted by link and queue of arrival. Each has a reserve; more bytes take of the shared part, up to the
// threshold, and then of the headroom, which is for data on the wire when a pause is sent.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "large_array.hpp"
#include "settings.hpp"
#include "snapshot.hpp"
#include "types.hpp"

namespace astra::roce {

class SharedBuffers {
 public:
  SharedBuffers(const Settings& settings, const Plan& plan);

  // Whether bytes that come by a link have room; if so they are counted.
  bool admit(LinkId link, std::uint32_t queue, std::int64_t bytes);
  // Bytes that came by a link leave their switch.
  void remove(LinkId link, std::uint32_t queue, std::int64_t bytes);

  // Whether the peer at the other end of a link must pause a queue now, or may resume; each reports a change once.
  bool must_pause(LinkId link, std::uint32_t queue);
  bool may_resume(LinkId link, std::uint32_t queue);

  // The decision about bytes that come by a link, and at a node.
  void snapshot(LinkId link, Snapshot& snapshot) const;
  void snapshot_node(NodeId node, Snapshot& snapshot) const;

  // For prefetching: the state of links, each of `kBytes`.
  static constexpr std::size_t kBytes = 128;
  const void* data() const { return ingress_.data(); }

 private:
  struct Count {
    std::int64_t in = 0;  // without bytes in the headroom
    std::int64_t headroom = 0;
  };
  // A link where it enters a switch.
  struct alignas(64) Ingress {
    std::int64_t headroom = 0;
    NodeId node = 0;
    std::uint8_t shift = 0;
    std::uint8_t paused = 0;                  // queues whose peer was paused
    std::array<Count, kQueues - 1> counts{};  // of queues 1 to 7

    Count& count(std::uint32_t queue) { return counts[queue - 1]; }
    bool has_paused(std::uint32_t queue) const { return (paused >> queue & 1) != 0; }
  };
  static_assert(sizeof(Ingress) == kBytes);
  struct Switch {
    std::int64_t free = 0;  // of the part that is shared, when the switch is empty
    std::int64_t shared = 0;
  };

  std::int64_t used(const Count& count) const { return std::max<std::int64_t>(0, count.in - reserve_); }
  // The threshold of a link (XOFF).
  std::int64_t threshold(const Ingress& port) const {
    const std::int64_t left = switches_[port.node].free - switches_[port.node].shared;
    return (wraps_ ? left & 0xffffffff : left) >> port.shift;
  }

  std::int64_t reserve_;
  std::int64_t margin_;
  bool wraps_;
  LargeArray<Ingress> ingress_;   // of each link
  std::vector<Switch> switches_;  // by node
};

inline bool SharedBuffers::admit(LinkId link, std::uint32_t queue, std::int64_t bytes) {
  Ingress& port = ingress_[link];
  Count& count = port.count(queue);
  Switch& at = switches_[port.node];
  const std::int64_t xoff = threshold(port);
  if (count.headroom + bytes > port.headroom && used(count) + bytes > xoff) return false;
  const std::int64_t next = count.in + bytes;
  if (next <= reserve_) {
    count.in = next;
  } else if (next - reserve_ > xoff) {
    count.headroom += bytes;
  } else {
    count.in = next;
    at.shared += std::min(bytes, next - reserve_);
  }
  return true;
}

inline void SharedBuffers::remove(LinkId link, std::uint32_t queue, std::int64_t bytes) {
  Ingress& port = ingress_[link];
  Count& count = port.count(queue);
  Switch& at = switches_[port.node];
  const std::int64_t of_headroom = std::min(count.headroom, bytes);
  const std::int64_t of_shared = std::min(bytes - of_headroom, used(count));
  count.headroom -= of_headroom;
  count.in -= bytes - of_headroom;
  at.shared -= of_shared;
}

inline bool SharedBuffers::must_pause(LinkId link, std::uint32_t queue) {
  Ingress& port = ingress_[link];
  const Count& count = port.count(queue);
  if (port.has_paused(queue) || (count.headroom == 0 && used(count) < threshold(port))) return false;
  port.paused |= static_cast<std::uint8_t>(1U << queue);
  return true;
}

inline bool SharedBuffers::may_resume(LinkId link, std::uint32_t queue) {
  Ingress& port = ingress_[link];
  if (!port.has_paused(queue)) return false;
  const Count& count = port.count(queue);
  if (count.headroom > 0 || (used(count) > 0 && used(count) + margin_ > threshold(port))) return false;
  port.paused &= static_cast<std::uint8_t>(~(1U << queue));
  return true;
}

}  // namespace astra::roce
