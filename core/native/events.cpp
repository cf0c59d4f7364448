#include "events.hpp"

namespace astra::engine {

HistoryId Events::next_history() { return prepend(next_, now(), history_); }

HistoryId Events::prepend(Recent& recent, Time time, HistoryId of) {
  if (recent.of != of || recent.at != time) {
    const HistoryId made = histories_.prepend(time, of);
    if (recent.of != kNone) histories_.drop(recent.of);
    histories_.drop(recent.made);
    histories_.hold(of);
    recent = {made, of, time};
  }
  return recent.made;
}

const std::vector<Event>& Events::next_level() {
  queue_.pop(level_);
  if (contended_ && level_.size() > 1 && !queue_.stage().is_ends()) join_tokens();
  return level_;
}

void Events::join_tokens() {
  const std::uint32_t count = next_id(level_);
  tokens_.clear();
  for (std::uint32_t place = 0; place < count; ++place) {
    if (std::holds_alternative<TokenReady>(level_[place].what)) tokens_.push_back(place);
  }
  if (tokens_.size() < 2) return;
  // Each token but the first of its NPU is left out, and found from the one before it.
  next_token_.assign(count, kNone);
  follows_.assign(count, false);
  bool any = false;
  for (const std::uint32_t place : tokens_) {
    std::uint32_t& last = last_token_[level_[place].npu];
    if (last != kNone) {
      next_token_[last] = place;
      follows_[place] = true;
      any = true;
    }
    last = place;
  }
  for (const std::uint32_t place : tokens_) last_token_[level_[place].npu] = kNone;
  if (!any) return;
  joined_.clear();
  joined_.reserve(count);
  for (std::uint32_t place = 0; place < count; ++place) {
    if (follows_[place]) continue;
    joined_.push_back(level_[place]);
    for (std::uint32_t next = next_token_[place]; next != kNone; next = next_token_[next]) joined_.push_back(level_[next]);
  }
  level_.swap(joined_);
  if (count > kKeptLevel) std::vector<Event>().swap(joined_);
}

}  // namespace astra::engine
