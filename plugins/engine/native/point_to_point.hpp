// Messages between two tasks: a SEND of one NPU and the RECEIVE of another.
//
// NPUs are pipeline stages that hand on activations, or ranks of a traced program that speak to each other outside of collectives. Both
// meet in a mailbox: the n-th send of equal bytes and tag from one NPU to another meets the n-th receive of that kind. A send ends
// when its message has arrived (on some networks later: when its sender knows that), a receive when it has its message. Under rendezvous a
// send waits for the request of its receive.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "events.hpp"
#include "interface.hpp"
#include "transport.hpp"

namespace astra::engine {

class PointToPoint {
 public:
  PointToPoint(Events& events, Transport& transport, std::uint32_t npus, bool rendezvous)
      : events_(events), transport_(transport), npus_(npus), rendezvous_(rendezvous) {}

  // The messages that have arrived and that no task has received.
  std::vector<Unreceived> unreceived() const;
  // A SEND or RECEIVE begins, as the `order`-th thing that its NPU does.
  void begin(TaskId task, const Task& kind, std::uint32_t order);
  // The message of a send has arrived: the send ends, unless its sender does not know yet, and so does the receive that waits for it.
  void on_arrival(MailboxId mailbox, TaskId sender);
  // The sender of a message knows that it has arrived: the send ends.
  void on_sent(TaskId sender) { end(sender); }
  // The request of a receive has reached the sender.
  void on_request(MailboxId mailbox);
  // To or from which NPU a task of an NPU moves a message.
  NpuId peer(NpuId npu, const Task& kind) const { return kind.peer ? kind.peer.of(npu, npus_) : npu; }

 private:
  // The common fields of the messages of a mailbox.
  struct Key {
    NpuId source, destination;
    std::int32_t tag;
    std::int64_t bytes;
    bool operator==(const Key&) const = default;
  };

  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };

  // Messages of one kind between two NPUs, which are a flow: how many have arrived, receives that wait, requests, and sends that wait for
  // one.
  struct Mailbox {
    Key key;
    std::uint64_t flow;
    std::uint64_t arrived = 0, requests = 0;
    std::deque<TaskId> posted, offered;
  };

  void begin_send(TaskId task, const Task& kind);
  void begin_receive(TaskId task, const Task& kind, std::uint32_t order);
  void send(MailboxId mailbox, TaskId task);
  void end(TaskId task);
  MailboxId mailbox(NpuId source, NpuId destination, const Task& kind);

  Events& events_;
  Transport& transport_;
  std::uint32_t npus_;
  bool rendezvous_;
  std::deque<Mailbox> mailboxes_;
  std::unordered_map<Key, MailboxId, HashKey> numbers_;
};

}  // namespace astra::engine
