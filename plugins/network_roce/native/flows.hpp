// Messages under way: the sender's queue pair and the receiver's state of each. A place is used again when nothing refers to it any more.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "types.hpp"

namespace astra::roce {

// The last packet that a sender has sent.
struct LastPacket {
  Tick time = 0;
  std::int64_t rate = 0;
  std::uint32_t bytes = 0;
};

// What a sender knows of its timeouts.
struct Timeout {
  Tick since = 0;           // when the last new acknowledgement came
  std::uint32_t count = 0;  // since there was progress
};

// After a loss (slow restart): bytes in flight at most, and the end up to which this grows by acknowledged bytes.
struct LossWindow {
  std::int64_t window = std::numeric_limits<std::int64_t>::max();
  std::int64_t threshold = 0;
};

// The receiver's state of a message.
struct Receiver {
  std::int64_t expected = 0;
  Tick received = -1;
  std::int64_t last_refused = -1;  // the byte of the last NACK
  Tick refuse_again = 0;
};

// What was sent for a message.
struct FlowCounts {
  std::uint64_t packets = 0;
  std::uint64_t acks = 0;
  std::uint64_t nacks = 0;
  std::uint64_t marked_acks = 0;
};

// What a message is.
struct FlowMessage {
  std::uint64_t number = 0;
  NodeId source = 0;
  NodeId destination = 0;
  std::uint16_t source_port = 0;
  Tick sent = 0;
  Tick started = 0;
};

// A message under way. Fields read for every packet come first.
struct alignas(64) Flow {
  std::int64_t bytes = 0;
  std::int64_t next_byte = 0;
  std::int64_t acknowledged = 0;
  std::int64_t window = 0;  // bytes at the full rate; 0: none
  std::int64_t rate = 0;
  std::int64_t line_rate = 0;
  Tick next_time = 0;       // before which it may not send
  std::uint32_t holds = 0;  // packets and events that refer to it, and one while it is under way
  std::uint8_t queue = 0;   // its priority group
  bool under_way = false;
  bool timer = false;  // a timeout is scheduled

  LastPacket last;
  LinkId nic = kNone;
  std::uint32_t place = 0;  // among the queue pairs of that interface
  Timeout timeout;
  FlowCounts counts;
  Receiver receiver;
  Tick round_trip_ns = 0;  // the longest of all pairs, or its own
  LossWindow loss;
  FlowMessage message;

  std::int64_t left() const { return next_byte < bytes ? bytes - next_byte : 0; }
  bool finished() const { return acknowledged >= bytes; }
};

class Flows {
 public:
  Flow& operator[](FlowId id) { return flows_[id]; }
  const Flow& operator[](FlowId id) const { return flows_[id]; }
  void prefetch(FlowId id) const {
    const char* const flow = reinterpret_cast<const char*>(&flows_[id]);
    __builtin_prefetch(flow, 1);
    __builtin_prefetch(flow + 64, 1);
  }
  std::size_t room() const { return flows_.size(); }
  std::size_t under_way() const { return under_way_; }

  FlowId take() {
    FlowId id = static_cast<FlowId>(flows_.size());
    if (free_.empty()) {
      flows_.emplace_back();
    } else {
      id = free_.back();
      free_.pop_back();
      flows_[id] = Flow{};
    }
    flows_[id].under_way = true;
    flows_[id].holds = 1;
    ++under_way_;
    return id;
  }
  void hold(FlowId id) { ++flows_[id].holds; }
  void drop(FlowId id) {
    if (--flows_[id].holds == 0) free_.push_back(id);
  }
  void end(FlowId id) {
    flows_[id].under_way = false;
    --under_way_;
    drop(id);
  }

  // How many messages of a pair were sent before this one.
  std::uint32_t count(NodeId source, NodeId destination) { return counts_[static_cast<std::uint64_t>(source) << 32 | destination]++; }

 private:
  std::vector<Flow> flows_;
  std::vector<FlowId> free_;
  std::size_t under_way_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

}  // namespace astra::roce
