// Packets, in a pool: those that have gone are used again. A packet that waits is in one list, by `next`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "large_array.hpp"
#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

enum class Kind : std::uint8_t { data, ack, nack, pause, resume };

struct alignas(32) Packet {
  std::int64_t sequence = 0;  // data: its first byte; else the byte that the receiver expects
  PacketId next = kNone;      // in its list
  FlowId flow = kNone;        // its message
  std::uint32_t bytes = 0;    // without preamble and gap
  std::uint32_t payload = 0;  // data: bytes of the message; pause, resume: the queue that is meant
  LinkId came_by = kNone;     // the link that it is on, or over which it came to the switch that it waits in
  Kind kind : 4 = Kind::data;
  std::uint8_t queue : 4 = 0;  // of the ports that it passes
  bool marked = false;         // by a switch whose queue was long (ECN)
  std::uint8_t hops = 0;       // of telemetry
  std::uint8_t step = 0;       // switches it has come to, since its message or its acknowledgement left
};
static_assert(sizeof(Packet) == 32);

// Fields for algorithms that measure delays, or utilisation as PINT does.
struct Measured {
  Tick stamp = 0;           // when the data was sent
  std::uint16_t power = 0;  // PINT: the utilisation, as a power of a base
};

// A switch's record in a packet of data (INT), quantised as on the wire.
struct Hop {
  std::uint32_t time = 0;   // ns mod 2^24
  std::uint32_t bytes = 0;  // that the port has sent, in units of 128, mod 2^20
  std::uint32_t queue = 0;  // bytes that wait in the port, in units of 80, mod 2^17
  std::int64_t rate = 0;
};
constexpr std::uint32_t kMostHops = 5;
using Hops = std::array<Hop, kMostHops>;

class Packets {
 public:
  Packets(Algorithm algorithm, bool goes_around)
      : goes_around_(goes_around),
        has_hops_(algorithm == Algorithm::hpcc),
        is_measured_(algorithm == Algorithm::timely || algorithm == Algorithm::swift || algorithm == Algorithm::pint) {}

  Packet& operator[](PacketId id) { return packets_[id]; }
  const Packet& operator[](PacketId id) const { return packets_[id]; }
  Hops& hops(PacketId id) { return hops_[id]; }
  // The place of the switch in `Plan::middles` that a packet of data goes to first; kNone: none, or it has been there.
  std::uint32_t& middle(PacketId id) { return middles_[id]; }
  Measured& measured(PacketId id) { return measured_[id]; }

  PacketId take() {
    ++used_;
    if (free_ != kNone) {
      const PacketId id = free_;
      Packet& packet = packets_[id];
      free_ = packet.next;
      packet = Packet{};
      return id;
    }
    return make();
  }
  // Data leaves its sender.
  void stamp(PacketId id, Tick now) {
    if (is_measured_) measured_[id] = {now, 0};
  }

  const Packet* data() const { return packets_.data(); }
  // Bring a packet near the processor that is needed soon, but not at once.
  void prefetch(PacketId id) const { __builtin_prefetch(&packets_[id], 1); }

  void give_back(PacketId id) {
    --used_;
    packets_[id].next = free_;
    free_ = id;
  }

  std::size_t used() const { return used_; }
  std::size_t room() const { return packets_.size(); }

 private:
  [[gnu::noinline]] PacketId make() {
    packets_.emplace_back();
    if (has_hops_) hops_.emplace_back();
    if (is_measured_) measured_.emplace_back();
    if (goes_around_) middles_.emplace_back();
    return static_cast<PacketId>(packets_.size() - 1);
  }

  bool goes_around_;
  bool has_hops_;
  bool is_measured_;
  LargeArray<Packet> packets_;
  std::vector<Hops> hops_;  // of each packet, with HPCC
  std::vector<Measured> measured_;
  std::vector<std::uint32_t> middles_;  // of each packet, if packets may go around
  PacketId free_ = kNone;
  std::size_t used_ = 0;
};

// A list of packets, first in, first out.
struct Fifo {
  PacketId first = kNone;
  PacketId last = kNone;

  bool empty() const { return first == kNone; }

  void push(Packets& packets, PacketId id) {
    packets[id].next = kNone;
    (empty() ? first : packets[last].next) = id;
    last = id;
  }

  PacketId pop(Packets& packets) {
    const PacketId id = first;
    first = packets[id].next;
    return id;
  }
};

}  // namespace astra::roce
