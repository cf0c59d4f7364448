// The bus between an NPU and its memory, shared by everything its endpoint handles: ASTRA-sim 1.0's LogGP model.
//
// A bus has two sides, NPU and memory, each a half-duplex LogGP endpoint (Alexandrov et al., 1995): it sends or receives one transfer at
// a time. The NPU side reads and writes through a second bus of the same kind, between it and local memory.
// A transfer is sent when the side is free: it waits for the overhead, and for the gap after the side's last one, takes its bytes
// times the gap per byte, and arrives a latency and an overhead later. There it may be reduced, and may come back.
// A bus works for the tokens of one NPU; `Buses` has those of all NPUs, and reports when a token has been carried.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "events.hpp"
#include "ids.hpp"
#include "interface.hpp"
#include "schedule.hpp"

namespace astra::engine {

// A token that the bus carries: of a rank, and the time after it (memory and computing; -1: none).
struct Carried {
  RankId rank;
  Time after_ps;
};

class Buses;

// The bus of one NPU, and within it the bus between its NPU side and local memory.
class SharedBus {
 public:
  SharedBus(const BusOptions& options, Buses& buses, NpuId npu);

  // Move bytes from the NPU side to the memory side. There they are reduced, or come back (`returned`), or are done with.
  void to_memory(std::int64_t bytes, bool reduced, bool returned, const Carried& token);
  // Move bytes from the memory side to the NPU side.
  void to_npu(std::int64_t bytes, bool reduced, bool returned, const Carried& token);
  // Something happens that `Buses::call_after` was asked for.
  void call(std::uint32_t number);

 private:
  enum State : std::uint8_t { kFree, kSending, kReceiving };
  enum class Then : std::uint8_t { done, join, reduce, send_back, finish };  // the step after a transfer
  enum Call : std::uint8_t { kSent, kReceived, kReduced };

  // Bytes on their way. `owner` is the transfer on the outer bus for which the inner bus works.
  struct Transfer {
    std::int64_t bytes;
    bool reduced;
    bool returned;
    Then then;
    std::uint32_t owner;
    Carried token;
  };

  // One end of a bus: 0 and 1 are the outer bus (NPU, memory), 2 and 3 the inner one.
  struct Side {
    State state = kFree, previous = kFree;
    std::int64_t last_end = 0;
    std::int64_t burst = 0;  // transfers sent since the last one came in
    std::deque<std::uint32_t> sends, receives, reductions;
    bool reducing = false;
  };

  // Send a transfer when its turn comes; the NPU side first reads it through the inner bus.
  void request(std::uint32_t side, std::uint32_t transfer);
  void join(std::uint32_t side, std::uint32_t transfer);
  // Send the next transfer, if this side is free and it is not the other's turn.
  void attempt(std::uint32_t side);
  void sent(std::uint32_t side);
  // A transfer begins to come in.
  void receive(std::uint32_t side, std::uint32_t transfer, std::int64_t wait);
  void received(std::uint32_t side);
  // The step after reception and reduction: back to the other side, or done.
  void hand_on(std::uint32_t side, std::uint32_t transfer);
  // The NPU side writes to local memory before it goes on.
  void through_inner(std::uint32_t side, std::uint32_t transfer, bool returned, Then what);
  void then(std::uint32_t side, std::uint32_t transfer, Then what);
  // A transfer has been carried: a token, or (on the inner bus) the one that the NPU side of the outer one waits for.
  void finished(std::uint32_t transfer);
  void reduce(std::uint32_t side, std::uint32_t transfer);
  void start_reduction(std::uint32_t side);
  void reduced(std::uint32_t side);
  void call_after(std::int64_t nanoseconds, std::uint32_t side, Call what);
  double gap_per_byte(std::uint32_t side) const;

  BusOptions options_;
  Buses& buses_;
  NpuId npu_;
  Side sides_[4];
  Pool<Transfer> transfers_;
};

// Hears of tokens that a bus has carried and that nothing follows.
class TokenListener {
 public:
  virtual ~TokenListener() = default;
  virtual void on_token(RankId rank) = 0;
};

// The shared buses of all NPUs, each made when it is first used.
class Buses {
 public:
  // There are none where `options` is nullptr.
  Buses(const BusOptions* options, Events& events, TokenListener& listener, std::uint32_t npus);

  // Whether endpoints share a bus.
  bool shared() const { return options_ != nullptr; }
  // Let the bus of an NPU carry a token, and at the other end reduce it or not.
  void carry(NpuId npu, const BusTransfer& transfer, bool reduced, const Carried& token);
  // The bus of an NPU has finished a transfer.
  void on_call(NpuId npu, std::uint32_t call) { bus_of(npu).call(call); }
  std::int64_t now_ns() const;
  // Call the bus of an NPU after some nanoseconds.
  void call_after(std::int64_t nanoseconds, NpuId npu, std::uint32_t call);
  // A token has been carried: its next step begins, or it counts at once.
  void carried(NpuId npu, const Carried& token);

 private:
  SharedBus& bus_of(NpuId npu);

  const BusOptions* options_;
  Events& events_;
  TokenListener& listener_;
  std::vector<std::unique_ptr<SharedBus>> buses_;  // of each NPU
};

}  // namespace astra::engine
