// The sends of all NPUs of a quotient network in a cycle, as the messages of its nodes, if automorphisms take them to themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "network/shape.hpp"
#include "quotient/automorphisms.hpp"

namespace astra::packet {

// A message as it is handed over.
struct Sent {
  std::uint64_t number = 0;
  std::int64_t bytes = 0;
  int source = 0;
  int destination = 0;
  int queue = -1;
  int vnet = 0;
};

// Whether automorphisms take messages, of one cycle and in any order, to themselves.
bool are_kept(const std::vector<Sent>& messages, const Automorphisms& by);

class SymmetricSends {
 public:
  SymmetricSends(const Shape& shape, const Automorphisms& automorphisms)
      : shape_(shape), automorphisms_(automorphisms), starts_(index(automorphisms.npus()) + 1) {}

  // Takes the messages that are sent in a cycle, in order. Returns whether each NPU sends, in each of its injection ports, translates of
  // the messages of the others, in the same order, and all go translates of one way.
  bool take(const std::vector<Sent>& messages);

  // A message of a node, by address, and its translates: their numbers, by place.
  struct Message {
    std::int64_t bytes;
    int node;
    int address;
    int queue;
    int vnet;
    int injection_port;
    bool operator==(const Message&) const = default;
  };
  const std::vector<Message>& messages() const { return messages_; }
  std::uint64_t number(std::size_t message, int place) const { return numbers_[message * index(automorphisms_.count()) + index(place)]; }

 private:
  struct Ordered {
    Message message;
    std::uint64_t number;
  };
  // Puts messages in order of their sources.
  void sort(const std::vector<Sent>& messages);
  // The messages of an NPU, as those of its node.
  void list(const std::vector<Sent>& messages, int npu, std::vector<Ordered>& result) const;

  const Shape& shape_;
  const Automorphisms& automorphisms_;
  std::vector<std::uint32_t> starts_;  // by NPU and past the last: where its messages begin in `order_`
  std::vector<std::uint32_t> order_;   // messages by source
  std::vector<Ordered> first_;         // of the NPU of a node at place 0, and of another one
  std::vector<Ordered> other_;
  std::vector<Message> messages_;
  std::vector<std::uint64_t> numbers_;  // [message * automorphisms + place]
};

}  // namespace astra::packet
