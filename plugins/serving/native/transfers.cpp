#include "transfers.hpp"

#include <algorithm>
#include <cstddef>

namespace astra::serving {

TransfersInTurn::TransfersInTurn(double latency_s, std::vector<Sender> senders, double bytes_per_s, Seconds seconds)
    : latency_s_(latency_s), senders_(std::move(senders)), bytes_per_s_(bytes_per_s), seconds_(std::move(seconds)) {
  by_layer_ = std::any_of(senders_.begin(), senders_.end(), [](const Sender& each) { return each.layers > 1; });
}

void TransfersInTurn::stream(double now, const RoutedChunks& parts) {
  if (parts.empty()) return;
  Sender& sender = senders_[static_cast<std::size_t>(parts.front().first.sender)];
  std::vector<double> durations;
  for (const auto& [route, chunk] : parts) durations.push_back(seconds(route, chunk.tokens));
  const auto layers = static_cast<double>(sender.layers);
  for (std::int64_t layer = 1; layer <= sender.layers; ++layer) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const PromptChunk& chunk = parts[part].second;
      const double ready = chunk.begin + (chunk.end - chunk.begin) * static_cast<double>(layer) / layers;
      sender.free_at = std::max({now, ready, sender.free_at}) + durations[part];
      if (layer == sender.layers) sent_at_[parts[part].first.request] = sender.free_at;
    }
  }
}

std::optional<double> TransfersInTurn::close(double now, const TransferPath& route, Tokens tokens) {
  ++count;
  Sender& sender = senders_[static_cast<std::size_t>(route.sender)];
  if (sender.layers > 1) {
    const double end = std::max(now, sent_at_.extract(route.request).mapped()) + latency_s_;
    total_s += end - now;
    return end;
  }
  const double duration = latency_s_ + seconds(route, tokens);
  sender.free_at = std::max(now, sender.free_at) + duration;
  total_s += duration;
  return sender.free_at;
}

// Of one layer, if layers are sent one by one.
double TransfersInTurn::seconds(const TransferPath& route, Tokens tokens) {
  const Sender& from = senders_[static_cast<std::size_t>(route.sender)];
  double bytes = static_cast<double>(tokens) * from.bytes_per_token;
  if (from.layers > 1) bytes /= static_cast<double>(from.layers);
  if (bytes_per_s_ != 0.0) return bytes / bytes_per_s_;
  auto& known = known_[static_cast<std::uint64_t>(route.sender) << 32 | static_cast<std::uint64_t>(route.receiver)];
  const auto entry = known.find(tokens);
  return entry != known.end() ? entry->second : known.emplace(tokens, seconds_(route.sender, route.receiver, bytes)).first->second;
}

}  // namespace astra::serving
