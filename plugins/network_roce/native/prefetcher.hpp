// Brings the memory that an event will use near the processor while the events before it happen.
//
// An event is looked at three times before its turn: for what it refers to, for what that refers to, and once more. What kind of event is
// next cannot be predicted, so nothing here branches on it: other events prefetch something that does no harm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "event.hpp"
#include "parts.hpp"

namespace astra::roce {

class Prefetcher {
 public:
  explicit Prefetcher(const Parts& parts);

  // A packet and where it arrives, or a port and its queues.
  [[gnu::always_inline]] void first(EventRef event) const {
    const bool moves = is_packet(event);
    const Array& array = arrays_[static_cast<std::size_t>(event.what())];
    const std::uintptr_t place = moves ? address_of(parts_.packets.data()) : wires_;
    load(place + std::uintptr_t{event.subject()} * (moves ? sizeof(Packet) : Wires::kBytes));
    load(array.place + std::uintptr_t{event.subject()} * array.of_subject + std::uintptr_t{event.link()} * array.of_link);
  }
  // Of a packet its message and the ports that it takes.
  [[gnu::always_inline]] void second(EventRef event) const {
    const FlowId flow = flow_of(packet_of(event));
    parts_.path_choices.prefetch(flow);
    parts_.flows.prefetch(only_if(event.what() == EventKind::end, flow));
  }
  // Of a packet the port that it goes to, or the interface that it wakes.
  [[gnu::always_inline]] void third(EventRef event) const {
    const Packet& packet = packet_of(event);
    const bool ends = event.what() == EventKind::end;
    const LinkId expected = parts_.path_choices.expected(flow_of(packet), packet, ends);
    const std::uintptr_t port = only_if(expected != kNone, expected);
    load(wires_ + port * Wires::kBytes);
    const Array& array = arrays_[static_cast<std::size_t>(ends ? EventKind::nic_free : EventKind::port_free)];
    load(array.place + port * array.of_subject);
  }
  // Whether there is a packet and a message to look at.
  bool ready() const { return parts_.packets.room() > 0 && parts_.path_choices.knows_any(); }

 private:
  // An array: bytes of a place by the subject, or by the link, of an event.
  struct Array {
    std::uintptr_t place = 0;
    std::size_t of_subject = 0;
    std::size_t of_link = 0;
  };

  static std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
  static void load(std::uintptr_t address) { __builtin_prefetch(reinterpret_cast<const void*>(address), 1); }
  // The number or 0, without a branch.
  static std::uint32_t only_if(bool holds, std::uint32_t number) { return number & (0U - static_cast<std::uint32_t>(holds)); }
  static bool is_packet(EventRef event) { return event.what() <= EventKind::end; }
  const Packet& packet_of(EventRef event) const { return parts_.packets[only_if(is_packet(event), event.subject())]; }
  static FlowId flow_of(const Packet& packet) { return only_if(packet.flow != kNone, packet.flow); }

  const Parts& parts_;
  std::uintptr_t wires_;
  std::array<Array, 16> arrays_{};  // by kind of event; these arrays do not grow
};

inline Prefetcher::Prefetcher(const Parts& parts) : parts_(parts), wires_(address_of(parts.wires.data())) {
  for (Array& array : arrays_) array.place = wires_;
  arrays_[static_cast<std::size_t>(EventKind::arrival)] = {address_of(parts.switches.buffers().data()), 0, SharedBuffers::kBytes};
  arrays_[static_cast<std::size_t>(EventKind::port_free)] = {address_of(parts.switches.queues().data()), OutputQueues::kBytes, 0};
  arrays_[static_cast<std::size_t>(EventKind::nic_free)] = {address_of(parts.nics.data()), Nics::kBytes, 0};
}

}  // namespace astra::roce
