// Queue pairs with messages under way: the sender's and the receiver's state of each. A place is used again when nothing refers to it any
// more.
//
// A message begins a queue pair, or is put behind those of one that is under way, if it is of the same connection. The messages of a queue
// pair are ranges of its bytes, so they share its window, its rate and what it knows of losses; none shares a packet with another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <vector>

#include "large_array.hpp"
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

// The receiver's state of a queue pair.
struct Receiver {
  std::int64_t expected = 0;
  std::int64_t whole = 0;          // the end of the last message that has arrived
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

// A message of a queue pair.
struct FlowMessage {
  FlowCounts counts;
  std::int64_t end = 0;  // among the bytes of the queue pair
  std::int64_t bytes = 0;
  std::uint64_t number = 0;
  Tick sent = 0;
  Tick started = 0;
  Tick received = -1;
};

// Where a queue pair begins and ends.
struct FlowEnds {
  NodeId source = 0;
  NodeId destination = 0;
  std::uint16_t source_port = 0;
  std::int64_t connection = 0;  // of those from its source to its destination; 0: one for its message alone
  std::uint64_t number = 0;     // of its first message
};

// A queue pair under way. Fields read for every packet come first.
struct alignas(64) Flow {
  std::int64_t bytes = 0;  // of all its messages
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
  FlowMessage message;  // the first that is not acknowledged as a whole
  Receiver receiver;
  Tick round_trip_ns = 0;  // the longest of all pairs, or its own
  LossWindow loss;
  FlowEnds ends;

  std::int64_t left() const { return next_byte < bytes ? bytes - next_byte : 0; }
  bool finished() const { return acknowledged >= bytes; }
  // Whether messages wait behind the first.
  bool has_more() const { return message.end < bytes; }
};

class Flows {
 public:
  Flow& operator[](FlowId id) { return flows_[id]; }
  const Flow& operator[](FlowId id) const { return flows_[id]; }
  void prefetch(FlowId id) const {
    const char* const flow = reinterpret_cast<const char*>(&flows_[id]);
    for (std::size_t byte = 0; byte < kHot; byte += 64) __builtin_prefetch(flow + byte, 1);
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

  // The queue pair of a connection of a priority group; kNone where none is under way.
  FlowId of_connection(const FlowEnds& ends, std::uint8_t queue) const {
    const auto entry = ends.connection == 0 ? of_connections_.end() : of_connections_.find(key_of(ends, queue));
    return entry == of_connections_.end() ? kNone : entry->second;
  }
  // It is this one until it ends.
  void open_connection(FlowId id) {
    const Flow& flow = flows_[id];
    if (flow.ends.connection != 0) of_connections_[key_of(flow.ends, flow.queue)] = id;
  }
  // A message goes behind those of a queue pair.
  void put_behind(FlowId id, FlowMessage message) {
    Flow& flow = flows_[id];
    message.end = flow.bytes += message.bytes;
    behind_[id].push_back(message);
  }
  // The first message is acknowledged: the next one is in its place.
  void take_next(FlowId id) {
    std::deque<FlowMessage>& behind = behind_[id];
    flows_[id].message = behind.front();
    behind.pop_front();
    if (behind.empty()) behind_.erase(id);
  }
  // The messages behind the first, if there are any.
  std::deque<FlowMessage>& behind(FlowId id) { return behind_.at(id); }
  // The message of a byte of a queue pair.
  FlowMessage& message_of(FlowId id, std::int64_t byte) {
    Flow& flow = flows_[id];
    if (byte < flow.message.end || !flow.has_more()) return flow.message;
    return *std::ranges::upper_bound(behind_.at(id), byte, {}, &FlowMessage::end);
  }
  // The end of the last message that these first bytes hold as a whole; 0 where they hold none that is not acknowledged yet.
  std::int64_t whole_messages(FlowId id, std::int64_t bytes) const {
    const Flow& flow = flows_[id];
    if (bytes < flow.message.end) return 0;
    if (bytes >= flow.bytes) return flow.bytes;
    const std::deque<FlowMessage>& behind = behind_.at(id);
    const auto next = std::ranges::upper_bound(behind, bytes, {}, &FlowMessage::end);
    return next == behind.begin() ? flow.message.end : std::prev(next)->end;
  }

  void hold(FlowId id) { ++flows_[id].holds; }
  void drop(FlowId id) {
    if (--flows_[id].holds == 0) free_.push_back(id);
  }
  void end(FlowId id) {
    const Flow& flow = flows_[id];
    if (flow.ends.connection != 0) of_connections_.erase(key_of(flow.ends, flow.queue));
    flows_[id].under_way = false;
    --under_way_;
    drop(id);
  }

  // How many messages of a pair were sent before this one.
  std::uint32_t count(NodeId source, NodeId destination) { return counts_[static_cast<std::uint64_t>(source) << 32 | destination]++; }

 private:
  static constexpr std::size_t kHot = 256;  // bytes of a flow that packets use

  struct Key {
    std::int64_t connection;
    NodeId source, destination;
    std::uint8_t queue;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t ends = (std::uint64_t{key.source} << 32 | key.destination) ^ std::uint64_t{key.queue} << 61;
      return static_cast<std::size_t>(((static_cast<std::uint64_t>(key.connection) * 0x9e3779b97f4a7c15 ^ ends) * 0xff51afd7ed558ccd) >>
                                      16);
    }
  };
  static Key key_of(const FlowEnds& ends, std::uint8_t queue) { return {ends.connection, ends.source, ends.destination, queue}; }

  LargeArray<Flow> flows_;
  std::vector<FlowId> free_;
  std::size_t under_way_ = 0;
  std::unordered_map<Key, FlowId, HashKey> of_connections_;     // queue pairs under way
  std::unordered_map<FlowId, std::deque<FlowMessage>> behind_;  // of queue pairs with more than one message
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

}  // namespace astra::roce
