// Connections, each with one message at a time on its links: the others wait for those before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "flat_table.hpp"

namespace astra::flow {

// A message that has been sent.
struct Sent {
  std::int64_t time = 0;  // when its latency is over
  std::uint64_t number = 0;
  std::int64_t bytes = 0;
  std::int64_t connection = 0;  // of those from its source to its destination; 0: one for it alone
  int source = 0, destination = 0;
  bool around = false;  // not on a path of least cost
};

class Connections {
 public:
  // The latency of a message is over. Returns whether it may begin now. If not, a later `leave` returns it.
  bool enter(const Sent& sent);

  // A message that has begun has ended. Returns the one that begins now, if one waits.
  std::optional<Sent> leave(const Sent& sent);

 private:
  struct Key {
    std::int64_t connection = 0;
    int source = 0, destination = 0;
    bool operator==(const Key&) const = default;
    bool empty() const { return connection == 0; }
    std::size_t hash() const;
  };

  // Whether a message of a connection is on its links, and places of the first and the last that wait.
  struct Queue {
    bool is_busy = false;
    int first = kNone, last = kNone;
    bool is_needed() const { return is_busy; }
  };

  struct Waiting {
    Sent sent;
    int next = kNone;
  };

  static constexpr int kNone = -1;

  static Key key_of(const Sent& sent) { return {sent.connection, sent.source, sent.destination}; }

  FlatTable<Key, Queue> queues_;
  std::vector<Waiting> waiting_;
  std::vector<int> spare_;  // places of none
};

}  // namespace astra::flow
