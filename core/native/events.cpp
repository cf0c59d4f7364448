#include "events.hpp"

#include "astra_sim/network.h"

namespace astra::engine {

void Events::push(Time time, NpuId npu, const Happening& what, Time via) {
  const HistoryId next = next_history();
  if (via < 0) return push_with(time, npu, what, next, next);
  const HistoryId history = prepend(via_, via, next);
  // What comes via the very instant in which it happens joins what is scheduled for that already.
  push_with(time, npu, what, history, via == time ? next : history);
}

void Events::push_with(Time time, NpuId npu, const Happening& what, HistoryId history, HistoryId key) {
  const Stage stage = time == now_ ? stage_.next() : Stage::messages(0);
  histories_.hold(history);
  histories_.hold(key);
  const std::uint32_t order = next_order(npu);
  if (causes_) causes_->schedule({npu, order, false}, time);
  queue_.push(time, stage, {key, history, order, npu, what});
}

void Events::push_end(Time time, NpuId npu, const Happening& what, HistoryId history, std::uint32_t order) {
  const Stage stage = Stage::ends(time == now_ ? stage_.round() + stage_.is_ends() : 0);
  histories_.hold(history);
  histories_.hold(0);
  if (causes_) causes_->schedule({npu, order, true}, time);
  queue_.push(time, stage, {history, 0, order, npu, what});
}

HistoryId Events::next_history() { return prepend(next_, now_, history_); }

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

Time Events::next_time() const { return queue_.empty() ? ASTRA_NEVER : queue_.time(); }

const std::vector<Event>& Events::next_level() {
  queue_.pop(now_, stage_, level_);
  if (contended_ && level_.size() > 1 && !stage_.is_ends()) join_tokens();
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
