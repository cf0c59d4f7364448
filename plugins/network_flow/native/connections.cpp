#include "connections.hpp"

namespace astra::flow {

std::size_t Connections::HashKey::operator()(const Key& key) const {
  const std::uint64_t ends = std::uint64_t{static_cast<std::uint32_t>(key.source)} << 32 | static_cast<std::uint32_t>(key.destination);
  const std::uint64_t mixed = (static_cast<std::uint64_t>(key.connection) * 0x9e3779b97f4a7c15 ^ ends) * 0xff51afd7ed558ccd;
  return static_cast<std::size_t>(mixed >> 16);
}

bool Connections::enter(const Sent& sent) {
  if (sent.connection == 0) return true;
  const auto [entry, is_new] = waiting_.try_emplace(key_of(sent));
  if (!is_new) entry->second.push_back(sent);
  return is_new;
}

std::optional<Sent> Connections::leave(const Sent& sent) {
  if (sent.connection == 0) return std::nullopt;
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
