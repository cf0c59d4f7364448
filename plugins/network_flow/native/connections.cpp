#include "connections.hpp"

#include <astra_sim/index.hpp>
#include <utility>

namespace astra::flow {

std::size_t Connections::Key::hash() const {
  const std::uint64_t ends = std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(destination);
  return (static_cast<std::uint64_t>(connection) * 0x9e3779b97f4a7c15 ^ ends) * 0xff51afd7ed558ccd;
}

bool Connections::enter(const Sent& sent) {
  if (sent.connection == 0) return true;
  Queue& queue = queues_.find_or_add(key_of(sent));
  if (!std::exchange(queue.is_busy, true)) return true;
  if (spare_.empty()) {
    spare_.push_back(count_of(waiting_));
    waiting_.emplace_back();
  }
  const int place = spare_.back();
  spare_.pop_back();
  at(waiting_, place) = {sent, kNone};
  (queue.first == kNone ? queue.first : at(waiting_, queue.last).next) = place;
  queue.last = place;
  return false;
}

std::optional<Sent> Connections::leave(const Sent& sent) {
  if (sent.connection == 0) return std::nullopt;
  Queue& queue = *queues_.find(key_of(sent));
  if (queue.first == kNone) {
    queue.is_busy = false;
    return std::nullopt;
  }
  const auto [next, behind] = at(waiting_, queue.first);
  spare_.push_back(queue.first);
  queue.first = behind;
  return next;
}

}  // namespace astra::flow
