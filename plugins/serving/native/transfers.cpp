#include "transfers.hpp"

#include <algorithm>
#include <cstddef>

namespace astra::serving {

std::optional<double> TransfersInTurn::begin(double now, Number sender, Number receiver, Tokens tokens, Number) {
  const double duration = latency_s_ + seconds(sender, receiver, tokens);
  double& free_at = senders_[static_cast<std::size_t>(sender)].free_at;
  free_at = std::max(now, free_at) + duration;
  total_s += duration;
  ++count;
  return free_at;
}

double TransfersInTurn::seconds(Number sender, Number receiver, Tokens tokens) {
  const Sender& from = senders_[static_cast<std::size_t>(sender)];
  const double bytes = from.exposed * static_cast<double>(tokens) * from.bytes_per_token;
  if (bytes_per_s_ != 0.0) return bytes / bytes_per_s_;
  auto& known = known_[static_cast<std::uint64_t>(sender) << 32 | static_cast<std::uint64_t>(receiver)];
  const auto entry = known.find(tokens);
  return entry != known.end() ? entry->second : known.emplace(tokens, seconds_(sender, receiver, bytes)).first->second;
}

}  // namespace astra::serving
