// The bus between an NPU and its memory, as in astra_sim/engine/shared_bus.py.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "programs.hpp"

namespace astra {

// A credit that has been carried: of a part of a phase, and what its slot charges for memory (-1: nothing).
struct Carried {
  std::uint32_t phase;
  std::uint32_t part;
  std::int64_t memory_ps;
};

// What a bus needs of its surroundings.
class BusHost {
 public:
  virtual ~BusHost() = default;
  virtual std::int64_t now_ns() const = 0;
  virtual void after(std::int64_t nanoseconds, std::uint32_t npu, std::uint32_t call) = 0;
  virtual void carried(std::uint32_t npu, const Carried& credit) = 0;
};

// The bus of one NPU, and within it the bus between its NPU side and local memory.
class SharedBus {
 public:
  SharedBus(const BusOptions& options, BusHost& host, std::uint32_t npu);

  // Carry a credit. It is reduced at the other end, or comes back, or is done with.
  void carry(bool to_npu, std::int64_t bytes, bool reduced, bool returned, const Carried& credit);

  // Something happens that `BusHost::after` was asked for.
  void call(std::uint32_t number);

 private:
  enum State : std::uint8_t { free, sending, receiving };
  enum Then : std::uint8_t { done, join, reduce, send_back, finish };  // what follows a transfer
  enum Call : std::uint8_t { sent, received, reduced };

  // `owner` is the transfer, and the side, for which the inner bus works.
  struct Transfer {
    std::int64_t bytes;
    bool reduced;
    bool returned;
    Then then;
    std::uint32_t owner;
    Carried credit;
  };

  // One end of a bus: 0 and 1 are the outer bus (NPU, memory), 2 and 3 the inner one.
  struct Side {
    State state = free, previous = free;
    std::int64_t last_end = 0;
    int burst = 0;
    std::deque<std::uint32_t> sends, receives, reductions;
    bool reducing = false;
  };

  std::uint32_t make(const Transfer& transfer);
  void request(std::uint32_t side, std::uint32_t transfer);
  void enqueue(std::uint32_t side, std::uint32_t transfer);
  void attempt(std::uint32_t side);
  void receive(std::uint32_t side, std::uint32_t transfer, std::int64_t wait);
  void on_sent(std::uint32_t side);
  void on_received(std::uint32_t side);
  void on_reduced(std::uint32_t side);
  void hand_on(std::uint32_t side, std::uint32_t transfer);
  void through_inner(std::uint32_t side, std::uint32_t transfer, bool returned, Then then);
  void then(std::uint32_t side, std::uint32_t transfer, Then what);
  void finished(std::uint32_t transfer);
  void start_reduction(std::uint32_t side);
  void after(std::int64_t nanoseconds, std::uint32_t side, Call what);
  double gap_per_byte(std::uint32_t side) const;

  BusOptions options_;
  BusHost& host_;
  std::uint32_t npu_;
  Side sides_[4];
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> unused_;
};

}  // namespace astra
