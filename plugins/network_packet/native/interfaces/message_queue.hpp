// The messages that wait at an injection port, by number, until all of their packets are made.
//
// By the rule `in_turn` destinations take turns. Then the queue has the oldest message for each, the next in turn first, and the others
// wait behind these.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/flit.hpp"
#include "base/ring_buffer.hpp"
#include "interfaces/messages.hpp"

namespace astra::packet {

class MessageQueue {
 public:
  bool empty() const { return first_.empty(); }
  std::uint32_t size() const { return first_.size(); }
  std::uint32_t front() const { return first_.front(); }
  std::uint32_t operator[](std::uint32_t index) const { return first_[index]; }
  // Messages that have been sent, and that the injection port does not see yet.
  std::uint32_t unseen() const { return unseen_.size(); }

  // A message waits as the last; or, if destinations take turns, as the last in turn or behind the others to its destination.
  void add(std::uint32_t number) { first_.push(number); }
  void add_in_turn(std::uint32_t number, Messages& messages) {
    const auto [newest, alone] = newest_.try_emplace(messages.message(number).destination, number);
    if (alone) return first_.push(number);
    messages.message(std::exchange(newest->second, number)).behind = number;
  }
  void add_unseen(std::uint32_t number) { unseen_.push(number); }
  // Those that are ready in cycle `now` are seen and wait in turn. Returns when the next one is ready, or kNever.
  Cycle see(Cycle now, Messages& messages) {
    for (; !unseen_.empty(); unseen_.pop()) {
      const Cycle ready = messages.message(unseen_.front()).ready;
      if (ready > now) return ready;
      add_in_turn(unseen_.front(), messages);
    }
    return kNever;
  }

  // The first message has made a packet. It goes when it has no more, or to the end if destinations take turns.
  void pass(const Messages& messages) {
    if (messages.message(front()).unmade == 0) first_.pop();
  }
  void pass_turn(const Messages& messages) {
    const std::uint32_t number = front();
    const Message& message = messages.message(number);
    first_.pop();
    const std::uint32_t next = message.unmade > 0 ? number : message.behind;
    if (next != kNoMessage) {
      first_.push(next);
    } else if (!newest_.empty()) {
      newest_.erase(message.destination);
    }
  }
  // Forgets all messages that are seen, or parts of them, that have not been made into packets.
  void drop(Messages& messages) {
    for (; !first_.empty(); first_.pop()) messages.drop_rest(first_.front());
    newest_.clear();
  }

 private:
  RingBuffer<std::uint32_t> first_;                // if destinations take turns, the oldest for each,
  std::unordered_map<int, std::uint32_t> newest_;  // and the newest for each
  RingBuffer<std::uint32_t> unseen_;               // if they do, and injection ports have clocks of their own
};

}  // namespace astra::packet
