#include "events.hpp"

namespace astra::engine {

HistoryId Events::prepend_anew(Recent& recent, Time time, HistoryId of) {
  const HistoryId made = histories_.prepend(time, of);
  if (recent.of != kNone) histories_.drop(recent.of);
  histories_.drop(recent.made);
  histories_.hold(of);
  recent = {made, of, time};
  return made;
}

const std::vector<Event>& Events::next_level() {
  queue_.pop(level_);
  if (contended_ && level_.size() > 1 && !queue_.stage().is_ends() && tokens_meet()) {
    part_tokens();
    join_tokens();
  }
  return level_;
}

bool Events::tokens_meet() {
  // Of 64 NPUs each, which of them have a token.
  bool meet = false;
  const auto mark = [&](const Event& event, auto function) {
    if (!std::holds_alternative<TokenReady>(event.what)) return;
    const NpuId first = event.npu, last = first + event.run.npu_step * (event.run.count - std::uint32_t{1});
    for (NpuId word = first / 64; word <= last / 64; ++word) {
      std::uint64_t npus = ~std::uint64_t{0};
      if (word == first / 64) npus &= ~std::uint64_t{0} << first % 64;
      if (word == last / 64) npus &= ~std::uint64_t{0} >> (63 - last % 64);
      function(has_token_[word], npus);
    }
  };
  const auto set = [&meet](std::uint64_t& word, std::uint64_t npus) {
    meet = meet || (word & npus);
    word |= npus;
  };
  const auto clear = [](std::uint64_t& word, std::uint64_t npus) { word &= ~npus; };
  for (const Event& event : level_) mark(event, set);
  for (const Event& event : level_) mark(event, clear);
  return meet;
}

void Events::part_tokens() {
  joined_level_.clear();
  for (const Event& event : level_) {
    const auto* token = std::get_if<TokenReady>(&event.what);
    if (!token || event.run.count == 1) {
      joined_level_.push_back(event);
      continue;
    }
    Event one = event;
    one.run.count = 1;
    RankId rank = token->rank;
    for (std::uint32_t left = event.run.count; left > 0; --left) {
      one.what = TokenReady{rank};
      joined_level_.push_back(one);
      ++one.order;
      one.npu += event.run.npu_step;
      rank.place += narrow<std::uint32_t>(std::int32_t{event.run.place_step});
    }
  }
  level_.swap(joined_level_);
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
  joined_level_.clear();
  joined_level_.reserve(count);
  for (std::uint32_t place = 0; place < count; ++place) {
    if (follows_[place]) continue;
    joined_level_.push_back(level_[place]);
    for (std::uint32_t next = next_token_[place]; next != kNone; next = next_token_[next]) joined_level_.push_back(level_[next]);
  }
  level_.swap(joined_level_);
  if (count > kKeptLevel) std::vector<Event>().swap(joined_level_);
}

}  // namespace astra::engine
