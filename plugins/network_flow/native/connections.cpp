#include "connections.hpp"

#include <utility>

namespace astra::flow {

std::size_t Connections::HashKey::operator()(const Key& key) const {
  const std::uint64_t ends = static_cast<std::uint64_t>(key.source) << 32 | static_cast<std::uint32_t>(key.destination);
  return (key.flow * 0x9e3779b97f4a7c15 ^ ends) * 0xff51afd7ed558ccd >> 20;
}

bool Connections::enter(const Sent& sent) {
  if (is_apart(sent)) return true;
  const auto [entry, added] = waiting_.try_emplace(key_of(sent));
  if (!added) entry->second.push_back(sent);
  return added;
}

std::optional<Sent> Connections::leave(const Sent& sent) {
  if (is_apart(sent)) return std::nullopt;
  const auto entry = waiting_.find(key_of(sent));
  if (entry->second.empty()) {
    waiting_.erase(entry);
    return std::nullopt;
  }
  const Sent next = entry->second.front();
  entry->second.pop_front();
  return next;
}

}  // namespace astra::flow
