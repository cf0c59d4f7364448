// Connections, each with one message at a time on its links: the others wait for those before them.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

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
    std::int64_t connection;
    int source, destination;
    bool operator==(const Key&) const = default;
  };

  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };

  static Key key_of(const Sent& sent) { return {sent.connection, sent.source, sent.destination}; }

  std::unordered_map<Key, std::list<Sent>, HashKey> waiting_;  // of each connection that has a message on its links
};

}  // namespace astra::flow
