// Causes: which event has brought about which, if a run is to be explained.
//
// Each event was scheduled when another one happened. So from the last event a chain of links leads back to the start: each is the
// time from when an event was scheduled to when it happened, and all together are the time of the run. That is its critical path: where an
// event had to wait for several others, the last of them has scheduled it. A chain that leads to nothing any more is forgotten.
#pragma once

#include <cstdint>
#include <vector>

#include "ids.hpp"
#include "pending_links.hpp"

namespace astra::engine {

// The kind of a link, as in astra_sim.engine.interface.LINKS.
enum class LinkKind : std::uint8_t { message, request, token, bus, point_to_point, point_to_point_request, meeting, task, step, overhead };

// An event for the record of causes: its kind, task and number of phase step (kNone: none, or not yet).
struct Label {
  LinkKind kind = LinkKind::task;
  std::uint32_t task = kNone;
  std::uint32_t step = kNone;
};

// The time from when `npu` scheduled an event to when it happened; of a message where it goes (kNone: none) and its bytes.
struct Link {
  Time begin = 0, end = 0;
  NpuId npu = 0;
  NpuId to = kNone;
  std::int64_t bytes = 0;
  Label label;
};

// An event that was scheduled and has not happened: by whom, as which thing of its NPU, and whether as an end.
struct EventKey {
  NpuId npu;
  std::uint32_t order;
  bool is_end;
};

class Causes {
 public:
  // With `messages` all that have arrived are kept, too.
  explicit Causes(bool messages = false) : keeps_messages_(messages) {}

  // The current event schedules another one.
  void schedule(const EventKey& key, Time time);
  // The event that was scheduled last is the arrival of a message.
  void carry(NpuId to, std::int64_t bytes);
  // The current event hands a message to a network with events.
  void send(std::uint64_t message, NpuId to, std::int64_t bytes);
  // The next event that is scheduled is the arrival of such a message.
  void deliver(std::uint64_t message);
  // An event happens now.
  void happens(const EventKey& key, const Label& label);
  // The links that lead to the last event, in order.
  std::vector<Link> path() const;
  // The messages that have arrived, if they are kept.
  const std::vector<Link>& messages() const { return messages_; }

 private:
  static constexpr std::size_t kFirstLimit = std::size_t{1} << 14;
  static constexpr std::size_t kGrowth = 3;

  // A stored link: it begins when its parent ends, and at 0 if it has none.
  struct Entry {
    Time end = 0;
    std::int64_t bytes = 0;
    NpuId npu = 0;
    NpuId to = kNone;
    std::uint32_t parent = kNone;
    Label label;
  };
  static_assert(sizeof(Entry) == 40);

  PendingLinks& scheduled(const EventKey& key) { return key.is_end ? ends_ : events_; }
  Link link(std::uint32_t id) const;
  // A link from the current event.
  std::uint32_t make();
  // Forget the links that lead to nothing that is to come.
  void forget();

  bool keeps_messages_;
  std::vector<Link> messages_;
  std::vector<Entry> entries_;       // oldest first, so a parent is before its links
  std::size_t limit_ = kFirstLimit;  // how many there may be before some are forgotten
  PendingLinks events_, ends_;       // that were scheduled, by NPU and order
  PendingLinks under_way_;           // messages, by number
  std::uint32_t now_ = kNone;        // of the current event
  std::uint32_t last_ = kNone;       // that was scheduled last
  std::uint32_t delivered_ = kNone;  // that is scheduled next
};

}  // namespace astra::engine
