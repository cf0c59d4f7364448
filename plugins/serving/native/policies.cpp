#include "policies.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace astra::serving {

namespace {

Batch decodes(const State& state) {
  Batch result;
  for (Sequence* each : state.running) {
    if (static_cast<std::int64_t>(result.size()) == state.limits.tokens) break;
    if (each->missing() == 1) result.emplace_back(each, 1);
  }
  return result;
}

Sequence* prompt_under_way(const State& state) {
  const auto first = std::find_if(state.running.begin(), state.running.end(), [](const Sequence* each) { return each->missing() > 1; });
  return first == state.running.end() ? nullptr : *first;
}

// A chunk of the first prompt under way, else of the first that waits, if places and blocks are there.
void add_chunk(Batch& plan, const State& state, std::int64_t left, Sequence* prompt, Sequence* waiting) {
  if (left < 1) return;
  if (prompt) {
    plan.emplace_back(prompt, static_cast<Tokens>(std::min<std::int64_t>(left, prompt->missing())));
  } else if (waiting && state.places() && (state.free_blocks() > 0 || state.running.empty())) {
    const std::int64_t room = std::max<std::int64_t>(1, state.free_blocks() * state.block_tokens());
    plan.emplace_back(waiting, static_cast<Tokens>(std::min({left, std::int64_t{waiting->missing()}, room})));
  }
}

std::int64_t longest(const Sequence& sequence, const State& state) {
  return state.blocks_for(std::int64_t{sequence.input} + sequence.max_new_tokens);
}

}  // namespace

// -- The scheduler -----------------------------------------------------------------------------------------------------

void PolicyScheduler::plan(Batch& batch, double now) {
  batch.clear();
  preempted.clear();
  admitted.clear();
  if (running.empty() && waiting.empty()) return;
  const State state{now, running, waiting, cache, limits_};
  const bool is_full = waiting.empty() || !has_place();
  to_come_ = policy_->plan(state);
  if (to_come_.empty()) {
    throw StuckPolicy(what_ + " planned nothing, and " + std::to_string(running.size() + waiting.size()) +
                      " requests are here: the run would never end");
  }
  std::reverse(to_come_.begin(), to_come_.end());
  while (!to_come_.empty()) {
    auto& [next, tokens] = to_come_.back();
    if (!allocate(*next, tokens, batch)) break;
    batch.emplace_back(to_come_.back().first, std::min(to_come_.back().second, to_come_.back().first->missing()));
    to_come_.pop_back();
  }
  if (batch.empty() && receives) admit_holders(batch);
  const bool decodes = admitted.empty() && preempted.empty() && batch.size() == running.size() &&
                       std::all_of(batch.begin(), batch.end(), [](const auto& each) { return each.second == 1; });
  steady_ = decodes && policy_->keeps(is_full);
}

bool PolicyScheduler::allocate(Sequence& sequence, Tokens tokens, const Batch& batch) {
  if (runs(sequence)) {
    if (drafts_ && sequence.missing() == 1) draft(sequence, drafts_);
    while (!cache.grow(sequence, sequence.computed + tokens)) {
      if (receives && take_back()) continue;
      if (!make_room(batch) && !give_way()) return false;
    }
    return true;
  }
  if (!has_place()) return false;
  if (!sequence.capacity) {
    const std::vector<std::int32_t>& matching = cache.matching(sequence);
    const auto hit = static_cast<Tokens>(static_cast<std::int64_t>(matching.size()) * cache.block_tokens());
    const Tokens fresh = std::min(tokens, sequence.total - hit);
    while (!cache.can_hold(matching, fresh)) {
      if (!make_room(batch)) return false;
    }
    start(sequence, matching, fresh);
  }
  waiting.erase(std::find(waiting.begin(), waiting.end(), &sequence));
  enter(sequence);
  return true;
}

// A sequence with blocks, unless these have come from another instance and it still waits.
bool PolicyScheduler::runs(const Sequence& sequence) const {
  return sequence.capacity && (!receives || std::find(running.begin(), running.end(), &sequence) != running.end());
}

// Admit waiting sequences that hold blocks already, for which the planned ones wait.
void PolicyScheduler::admit_holders(Batch& batch) {
  std::int64_t left = limits_.tokens;
  std::vector<Sequence*> holders;
  std::copy_if(waiting.begin(), waiting.end(), std::back_inserter(holders), [](const Sequence* each) { return each->capacity > 0; });
  for (Sequence* each : holders) {
    if (!left || !has_place()) return;
    waiting.erase(std::find(waiting.begin(), waiting.end(), each));
    enter(*each);
    batch.emplace_back(each, cut(each->missing(), left));
    left -= batch.back().second;
  }
}

bool PolicyScheduler::make_room(const Batch& batch) {
  const auto is_planned = [&](const Sequence* sequence) {
    const auto is_it = [sequence](const auto& each) { return each.first == sequence; };
    return std::any_of(to_come_.begin(), to_come_.end(), is_it) || std::any_of(batch.begin(), batch.end(), is_it);
  };
  for (std::size_t place = running.size(); place--;) {
    if (is_planned(running[place])) continue;
    preempt(place);
    return true;
  }
  return false;
}

bool PolicyScheduler::give_way() {
  const auto victim = std::find_if(to_come_.begin(), to_come_.end(), [this](const auto& each) { return runs(*each.first); });
  const bool is_next = victim + 1 == to_come_.end();
  preempt(static_cast<std::size_t>(std::find(running.begin(), running.end(), victim->first) - running.begin()));
  if (!is_next) to_come_.erase(victim);
  return !is_next;
}

// -- vLLM before V1, Sarathi -------------------------------------------------------------------------------------------

Batch PrefillFirst::plan(const State& state) {
  Batch result;
  add_chunk(result, state, state.limits.tokens, prompt_under_way(state), nullptr);
  if (!result.empty()) return result;
  Filled filled(state.limits.tokens);
  std::int64_t blocks = state.free_blocks();
  for (std::size_t place = 0; place < state.places(); ++place) {
    Sequence& each = *state.waiting[place];
    blocks -= state.blocks_for(each.missing());
    if (each.missing() > filled.left || blocks < 0) break;
    filled.add(each, each.missing());
  }
  if (!filled.plan.empty()) return filled.plan;
  result = decodes(state);
  if (result.empty()) add_chunk(result, state, state.limits.tokens, nullptr, state.waiting.empty() ? nullptr : state.waiting.front());
  return result;
}

Batch OneChunk::plan(const State& state) {
  Batch result = decodes(state);
  const std::int64_t left = state.limits.tokens - static_cast<std::int64_t>(result.size());
  Sequence* const prompt = prompt_under_way(state);
  add_chunk(result, state, left, prompt, prompt ? nullptr : next(state));
  return result;
}

double OneChunk::score(const Sequence& sequence, double now) const {
  const double waited = now - sequence.arrival;
  if (order_ == Order::kDeadline) return first_ / 1e3 + second_ / 1e6 * sequence.input - waited;
  return (order_ == Order::kPrompt ? sequence.missing() : sequence.max_new_tokens) - first_ * waited;
}

Sequence* OneChunk::next(const State& state) const {
  if (state.waiting.empty()) return nullptr;
  if (order_ == Order::kArrival) return state.waiting.front();
  std::pair<double, Number> least{};
  Sequence* result = nullptr;
  for (Sequence* each : state.waiting) {
    const std::pair<double, Number> key{score(*each, state.now), each->number};
    if (!result || key < least) {
      least = key;
      result = each;
    }
  }
  return result;
}

// -- Orca, TensorRT-LLM ------------------------------------------------------------------------------------------------

Batch WholePrompts::plan(const State& state) {
  Batch tokens = decodes(state);
  const std::int64_t left = state.limits.tokens - static_cast<std::int64_t>(tokens.size());
  Filled filled(left, std::move(tokens));
  std::int64_t blocks = reserves_ ? state.cache.blocks() : state.free_blocks();
  for (Sequence* each : state.running) {
    if (reserves_) blocks -= longest(*each, state);
    if (each->missing() > 1) filled.add(*each, each->missing());
  }
  for (std::size_t place = 0; place < state.places() && filled.left; ++place) {
    Sequence& each = *state.waiting[place];
    const bool is_alone = state.running.empty() && place == 0;
    blocks -= reserves_ ? longest(each, state) : state.blocks_for(each.missing());
    const bool is_cut = each.missing() > filled.left && !chunked_ && !is_alone;
    if ((blocks < 0 && !is_alone) || is_cut) break;
    filled.add(each, each.missing());
  }
  return std::move(filled.plan);
}

// -- SGLang ------------------------------------------------------------------------------------------------------------

namespace {

constexpr double kFirstRatio = 0.7;
constexpr double kLeastShare = 0.14;
constexpr double kDecayIterations = 600;
constexpr Tokens kLongestExpected = 4096;
constexpr std::int64_t kRetractedTokens = 20;

}  // namespace

Sglang::Sglang(bool longest_match, double conservativeness)
    : longest_match_(longest_match), first_ratio_(kFirstRatio * conservativeness), ratio_(first_ratio_) {}

Batch Sglang::plan(const State& state) {
  Batch result = prompts(state);
  return result.empty() ? tokens(state) : result;
}

Batch Sglang::prompts(const State& state) const {
  Filled filled(state.limits.tokens);
  double expected = 0.0;
  for (Sequence* each : state.running) {
    expected += std::min(each->max_new_tokens - each->generated, kLongestExpected) * ratio_;
    if (each->missing() > 1) filled.add(*each, each->missing());
  }
  double room = static_cast<double>(state.free_blocks() * state.block_tokens()) - expected;
  std::vector<std::pair<Sequence*, std::int64_t>> waiting;
  for (std::size_t place = 0; place < state.waiting.size(); ++place) {
    waiting.emplace_back(state.waiting[place], place < kLookedUp ? state.cache.match_tokens(*state.waiting[place]) : 0);
  }
  if (longest_match_) {
    std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  for (std::size_t place = 0; place < state.places(); ++place) {
    const auto& [each, cached] = waiting[place];
    const std::int64_t fresh = std::max<std::int64_t>(1, each->missing() - cached);
    room -= static_cast<double>(fresh + std::min(each->max_new_tokens, kLongestExpected));
    if (!filled.left || (room <= 0 && (!state.running.empty() || place))) break;
    filled.add(*each, fresh);
  }
  return std::move(filled.plan);
}

Batch Sglang::tokens(const State& state) {
  std::vector<Sequence*> decoding;
  for (Sequence* each : state.running) {
    if (each->missing() == 1) decoding.push_back(each);
  }
  const auto needs_block = [&](const Sequence* each) { return each->computed % state.block_tokens() == 0; };
  std::int64_t needed = std::count_if(decoding.begin(), decoding.end(), needs_block);
  std::vector<Sequence*> staying = decoding;
  if (needed > state.free_blocks() && staying.size() > 1) {
    std::stable_sort(decoding.begin(), decoding.end(), [](const Sequence* a, const Sequence* b) {
      return std::pair(a->generated, -a->input) < std::pair(b->generated, -b->input);
    });
    for (std::size_t victim = 0; needed > state.free_blocks() && staying.size() > 1; ++victim) {
      staying.erase(std::find(staying.begin(), staying.end(), decoding[victim]));
      needed -= needs_block(decoding[victim]) + state.blocks_for(decoding[victim]->computed);
    }
    std::int64_t total = 0, most = 0;
    for (const Sequence* each : staying) {
      total += each->generated + kRetractedTokens;
      most += each->max_new_tokens;
    }
    ratio_ = std::min(1.0, static_cast<double>(total) / static_cast<double>(std::max<std::int64_t>(1, most)));
  } else {
    ratio_ = std::max(first_ratio_ * kLeastShare, ratio_ - first_ratio_ * (1 - kLeastShare) / kDecayIterations);
  }
  Batch result;
  for (Sequence* each : staying) {
    if (static_cast<std::int64_t>(result.size()) == state.limits.tokens) break;
    result.emplace_back(each, 1);
  }
  return result;
}

}  // namespace astra::serving
