#include "token_merge.hpp"

namespace astra::engine {

bool TokenMerge::tokens_meet(const std::vector<Event>& level) {
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
  for (const Event& event : level) mark(event, set);
  for (const Event& event : level) mark(event, clear);
  return meet;
}

void TokenMerge::merge(std::vector<Event>& level, bool as_runs) {
  const auto each_npu = [](const Event& event, auto function) {
    if (!std::holds_alternative<TokenReady>(event.what)) return;
    const NpuId last = event.npu + event.run.npu_step * (event.run.count - std::uint32_t{1});
    for (NpuId npu = event.npu; npu <= last; ++npu) function(npu);
  };
  // The tokens of an NPU are a list. It happens where its first one is.
  tokens_.clear();
  for (std::uint32_t place = 0; place < level.size(); ++place) {
    each_npu(level[place], [&](NpuId npu) {
      TokenList& list = tokens_of_[npu];
      (list.first == kNone ? list.first : tokens_[list.last].next) = next_id(tokens_);
      list.last = next_id(tokens_);
      tokens_.push_back({place, kNone});
    });
  }
  merged_.clear();
  for (const Event& event : level) {
    if (!std::holds_alternative<TokenReady>(event.what)) merged_.push_back(event);
    each_npu(event, [&](NpuId npu) {
      const TokenList list = std::exchange(tokens_of_[npu], TokenList{});
      for (std::uint32_t token = list.first; token != kNone; token = tokens_[token].next) add(level[tokens_[token].place], npu, as_runs);
    });
  }
  level.swap(merged_);
  if (tokens_.size() > kKeptLevel) {
    std::vector<Event>().swap(merged_);
    std::vector<Token>().swap(tokens_);
  }
}

void TokenMerge::add(const Event& event, NpuId npu, bool as_runs) {
  Event one = event;
  if (event.run.npu_step) {
    const auto number = narrow<std::int32_t>(npu - event.npu);
    RankId rank = std::get<TokenReady>(event.what).rank;
    rank.place += narrow<std::uint32_t>(number * event.run.place_step);
    one.npu = npu;
    one.run = {.via_now = event.run.via_now, .numbering = event.run.numbering};
    one.what = TokenReady{rank};
  }
  if (!merged_.empty()) {
    Event& before = merged_.back();
    const auto* token = std::get_if<TokenReady>(&before.what);
    const RankId rank = std::get<TokenReady>(one.what).rank;
    const bool is_same = token && token->rank.phase == rank.phase && token->rank.place == rank.place;
    if (is_same && as_runs && before.key == one.key && before.run.steps_as(one.run) && before.run.via_now == one.run.via_now &&
        before.run.count + one.run.count <= Run::kLongest) {
      before.run.count += one.run.count;
      return;
    }
  }
  merged_.push_back(one);
}

}  // namespace astra::engine
