// The processors of NPUs, if sending and receiving messages takes their time: the overhead o of LogGP.
//
// A processor does one thing after another, in the order of requests, and never interrupts one: so it sends
// and receives nothing while it computes, and computes nothing while it sends or receives (Alexandrov et al., 1995). NPUs may have a
// processor for messages beside the one that computes: then computing waits for no message, and messages for each other alone. Without
// overheads nothing waits.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "host.hpp"
#include "ids.hpp"

namespace astra::engine {

class Processors {
 public:
  Processors(Host& host, std::uint32_t npus) : host_(host), npus_(npus) {}

  // Whether messages take their time.
  bool handle_messages() const { return handle_messages_; }
  // Let them handle messages, and compute, too, if `compute` is set. The host gives the time of messages.
  void set_overheads(bool compute);
  // When a computation begins that is ready now.
  Time free_from(NpuId npu, Time now) const;
  // Compute from `begin` on (`free_from`). Returns when that ends. Raises TooLong.
  Time compute(NpuId npu, Time begin, Time duration);
  // Send or receive a message of `bytes` bytes, from now on or after the processor's earlier work. Returns the end. Raises TooLong.
  Time handle(NpuId npu, Time now, std::int64_t bytes, bool receives);

 private:
  Host& host_;
  std::uint32_t npus_;
  bool handle_messages_ = false;
  bool compute_ = false;
  std::vector<Time> free_at_;                           // of each NPU, or nothing where messages take no time
  std::unordered_map<std::int64_t, Time> spent_on_[2];  // sending and receiving a message, by bytes
};

}  // namespace astra::engine
