// Packets under way, by number, in a pool of each thread that makes some.
//
// Several threads (see thread_team.hpp) may make and receive packets at the same time. A packet that another thread has made goes back to
// that thread's pool when `settle` is called, between windows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/pool.hpp"

namespace astra::packet {

class Packets {
 public:
  static constexpr int kThreads = 16;  // at most

  Packet& operator[](std::uint32_t number) { return pools_[number >> kBits].packets[number & kPlace]; }
  const Packet& operator[](std::uint32_t number) const { return pools_[number >> kBits].packets[number & kPlace]; }
  // The number of a new packet.
  std::uint32_t take(int thread) { return narrow<std::uint32_t>(thread) << kBits | at(pools_, thread).packets.take(); }
  // The last flit of a packet has reached its destination.
  void give_back(int thread, std::uint32_t number);
  void settle();

  // So many threads take and give back packets from now on.
  void employ(int threads) { threads_ = std::max(threads_, threads); }

  std::uint32_t under_way() const;
  void clear();
  // Calls visit(packet) for each that there is room for.
  template <class Visit>
  void each(Visit visit) {
    for (PacketPool& pool : pools()) {
      for (std::uint32_t place = 0; place < pool.packets.size(); ++place) visit(pool.packets[place]);
    }
  }

 private:
  static constexpr int kBits = Pool<Packet>::kBits;
  static constexpr std::uint32_t kPlace = (1U << kBits) - 1;

  // The packets that a thread has made, and those of others that it has received since the last window.
  struct alignas(64) PacketPool {
    Pool<Packet> packets;
    std::vector<std::uint32_t> received;
  };

  std::span<PacketPool> pools() { return std::span(pools_).first(index(threads_)); }
  std::span<const PacketPool> pools() const { return std::span(pools_).first(index(threads_)); }

  std::array<PacketPool, kThreads> pools_;
  int threads_ = 1;  // that have done anything so far
};

inline void Packets::give_back(int thread, std::uint32_t number) {
  PacketPool& pool = at(pools_, thread);
  if (number >> kBits == index(thread)) {
    pool.packets.give_back(number & kPlace);
  } else {
    pool.received.push_back(number);
  }
}

inline void Packets::settle() {
  for (PacketPool& pool : pools()) {
    for (std::uint32_t number : pool.received) pools_[number >> kBits].packets.give_back(number & kPlace);
    pool.received.clear();
  }
}

inline std::uint32_t Packets::under_way() const {
  std::uint32_t taken = 0;
  for (const PacketPool& pool : pools()) taken += pool.packets.taken();
  return taken;
}

inline void Packets::clear() {
  for (PacketPool& pool : pools()) pool.packets.clear();
}

}  // namespace astra::packet
