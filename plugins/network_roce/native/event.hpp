// An event: in full, in a word, and as it waits in a bucket.
#pragma once

#include <cstdint>

#include "types.hpp"

namespace astra::roce {

// `arrival` is that of a packet at a switch, and `port_free` of a port of a switch; those of NPUs are `end` and `nic_free`.
enum class EventKind : std::uint8_t {
  arrival,
  end,
  port_free,
  nic_free,
  wake,
  start,
  alpha,
  decrease,
  increase,
  timeout,
  failure,
  nothing
};

struct Event {
  Tick time;
  std::uint64_t order;
  std::uint32_t subject;  // a packet that arrives, a port, a flow, a start or a failure
  LinkId link;            // by which a packet arrives
  EventKind what;

  bool is_later(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
};

// What happens, in a word.
class EventRef {
 public:
  EventRef() = default;
  EventRef(EventKind what, std::uint32_t subject, LinkId link)
      : bits_(std::uint64_t{link} << 36 | std::uint64_t{subject} << 4 | static_cast<std::uint64_t>(what)) {}
  EventKind what() const { return static_cast<EventKind>(bits_ & 15); }
  std::uint32_t subject() const { return static_cast<std::uint32_t>(bits_ >> 4); }
  LinkId link() const { return static_cast<LinkId>(bits_ >> 36); }

 private:
  std::uint64_t bits_ = 0;
};

// An event of a bucket, a short span of time.
struct BucketEvent {
  static constexpr unsigned kOrderBits = 48;
  static constexpr unsigned kTimeBits = 64 - kOrderBits;
  static constexpr std::uint64_t kOrders = (std::uint64_t{1} << kOrderBits) - 1;
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};

  std::uint64_t key = kLast;  // time in its bucket, then order
  EventRef thing{};

  std::uint64_t order() const { return key & kOrders; }
  // `base`: when its bucket begins.
  Tick time(Tick base) const { return base + static_cast<Tick>(key >> kOrderBits); }
  Event event(Tick base) const { return {time(base), order(), thing.subject(), thing.link(), thing.what()}; }
};

}  // namespace astra::roce
