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
  next_token_.assign(count, kNone);
  follows_.assign(count, false);
  joined_.clear();
  // Each token but the first of its NPU is left out, and found from the one before it.
  for (std::uint32_t place = 0; place < count; ++place) {
    const Event& event = level_[place];
    if (!std::holds_alternative<TokenReady>(event.what)) continue;
    std::uint32_t& last = last_token_[event.npu];
    if (last != kNone) {
      next_token_[last] = place;
      follows_[place] = true;
    }
    last = place;
  }
  for (std::uint32_t place = 0; place < count; ++place) {
    if (follows_[place]) continue;
    joined_.push_back(level_[place]);
    if (!std::holds_alternative<TokenReady>(level_[place].what)) continue;
    last_token_[level_[place].npu] = kNone;
    for (std::uint32_t next = next_token_[place]; next != kNone; next = next_token_[next]) joined_.push_back(level_[next]);
  }
  level_.swap(joined_);
}

}  // namespace astra::engine
