#include "scheduler.hpp"

#include <algorithm>
#include <cstddef>

namespace astra::serving {

void Scheduler::add(Sequence& sequence) {
  auto place = waiting.end();
  if (by_priority_) {
    place = std::upper_bound(waiting.begin(), waiting.end(), sequence.order(),
                             [](const auto& order, const Sequence* each) { return order < each->order(); });
  }
  waiting.insert(place, &sequence);
}

void Scheduler::plan(Batch& batch, double) {
  batch.clear();
  preempted.clear();
  admitted.clear();
  const Planned planned = plan_running(batch);
  if (preempted.empty() && !waiting.empty()) admit(batch, planned.budget);
  steady_ = planned.steady && preempted.empty() && admitted.empty() && batch.size() == running.size();
}

Scheduler::Planned Scheduler::plan_running(Batch& batch) {
  Planned left{limits_.tokens, true};
  std::size_t position = 0;
  while (position < running.size() && left.budget > 0) {
    Sequence& sequence = *running[position];
    Tokens tokens = sequence.missing();
    if (tokens == 1) {
      if (drafts_) left.budget -= draft(sequence, left.budget - 1);
      if (sequence.computed < sequence.capacity) {
        batch.emplace_back(&sequence, 1);
        --left.budget;
        ++position;
        continue;
      }
    } else {
      left.steady = false;
      tokens = cut(tokens, left.budget);
    }
    while (!cache.grow(sequence, sequence.computed + tokens)) {
      if (receives && take_back()) continue;
      const std::size_t place = victim();
      const bool is_own = running[place] == &sequence;
      if (place < position) {  // every sequence before this one is in the batch
        left.budget += batch[place].second + running[place]->drafts;
        batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(place));
        --position;
      }
      preempt(place);
      if (is_own) return {left.budget, false};
    }
    batch.emplace_back(&sequence, tokens);
    left.budget -= tokens;
    ++position;
  }
  return left;
}

Tokens Scheduler::draft(Sequence& sequence, std::int64_t budget) {
  const auto drafts = sequence.generated ? static_cast<Tokens>(std::min<std::int64_t>(drafts_, budget)) : 0;
  sequence.drafts = drafts > 0 && cache.grow(sequence, sequence.total + drafts) ? drafts : 0;
  return sequence.drafts;
}

std::size_t Scheduler::victim() const {
  if (!by_priority_) return running.size() - 1;
  const auto worst =
      std::max_element(running.begin(), running.end(), [](const Sequence* a, const Sequence* b) { return a->order() < b->order(); });
  return static_cast<std::size_t>(worst - running.begin());
}

void Scheduler::preempt(std::size_t place) {
  Sequence& sequence = *running[place];
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(place));
  lose(sequence);
  preempted.push_back(&sequence);
  if (by_priority_) {
    add(sequence);
  } else {
    waiting.push_front(&sequence);
  }
}

void Scheduler::lose(Sequence& sequence) {
  cache.release(sequence, true);
  sequence.computed = 0;
  sequence.drafts = 0;
  ++sequence.preemptions;
}

bool Scheduler::take_back() {
  const auto last = std::find_if(waiting.rbegin(), waiting.rend(), [](const Sequence* each) { return each->capacity > 0; });
  if (last == waiting.rend()) return false;
  lose(**last);
  return true;
}

// In order, up to the first that does not fit; behind it those whose keys and values have come, which have their blocks.
void Scheduler::admit(Batch& batch, std::int64_t budget) {
  std::size_t place = 0;
  while (place < waiting.size() && budget > 0 && has_place()) {
    Sequence& sequence = *waiting[place];
    const Tokens tokens = place == 0 || sequence.capacity ? fitting(sequence, budget) : 0;
    if (!tokens) {
      if (!receives) return;
      ++place;
      continue;
    }
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(place));
    enter(sequence);
    batch.emplace_back(&sequence, tokens);
    budget -= tokens;
  }
}

void Scheduler::enter(Sequence& sequence) {
  running.push_back(&sequence);
  admitted.push_back(&sequence);
}

Tokens Scheduler::fitting(Sequence& sequence, std::int64_t budget) {
  if (sequence.capacity) return cut(sequence.missing(), budget);
  const std::vector<std::int32_t>& matching = cache.matching(sequence);
  const auto hit = static_cast<Tokens>(static_cast<std::int64_t>(matching.size()) * cache.block_tokens());
  const Tokens missing = sequence.total - hit, tokens = cut(missing, budget);
  if (!cache.can_hold(matching, sends && sequence.preemptions ? missing : tokens)) return 0;
  start(sequence, matching, tokens);
  return tokens;
}

void Scheduler::start(Sequence& sequence, const std::vector<std::int32_t>& matching, Tokens tokens) {
  const auto hit = static_cast<Tokens>(static_cast<std::int64_t>(matching.size()) * cache.block_tokens());
  cache.share(sequence, matching);
  cache.grow(sequence, hit + tokens);
  sequence.computed = hit;
  hit_tokens += hit;
  looked_up_tokens += sequence.total;
  if (!sequence.preemptions) sequence.cached = hit;
}

Tokens Scheduler::cut(Tokens tokens, std::int64_t budget) const {
  const std::int64_t most = limits_.prefill_tokens ? std::min(budget, limits_.prefill_tokens) : budget;
  return static_cast<Tokens>(std::min<std::int64_t>(tokens, most));
}

void Scheduler::finish(const std::vector<Sequence*>& sequences) {
  for (Sequence* each : sequences) cache.release(*each);
  running.erase(std::remove_if(running.begin(), running.end(), [](const Sequence* each) { return each->is_done(); }), running.end());
}

}  // namespace astra::serving
