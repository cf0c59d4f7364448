#include "instance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace astra::serving {

double Iterations::elapsed(std::int64_t iterations) const {
  const double first_s = sum_of(first), last_s = sum_of(last);
  const auto n = static_cast<double>(iterations);
  if (count == 1) return first_s * n;
  return n * first_s + (last_s - first_s) * n * static_cast<double>(iterations - 1) / static_cast<double>(2 * (count - 1));
}

Parts Iterations::parts() const {
  if (count == 1) return first;
  const double slope = static_cast<double>(count * (count - 1)) / static_cast<double>(2 * (count - 1));
  Parts result;
  for (std::size_t part = 0; part < kParts; ++part) {
    result[part] = static_cast<double>(count) * first[part] + (last[part] - first[part]) * slope;
  }
  return result;
}

std::int64_t Iterations::until(double now) const {
  std::int64_t low = 1, high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (start + elapsed(middle) < now) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::int64_t Instance::outstanding_tokens() const {
  std::int64_t result = 0;
  for (const Sequence* each : scheduler.waiting) result += each->missing();
  for (const Sequence* each : scheduler.running) result += each->missing();
  return result;
}

void Instance::plan(double now) {
  account_until(now);
  scheduler.plan(batch_, now);
  gave_way = scheduler.preempted;
  for (Sequence* each : scheduler.preempted) mark_preempted(*each, now);
  if (batch_.empty() && !scheduler.preempted.empty()) scheduler.plan(batch_, now);
  for (Sequence* each : scheduler.admitted) {
    if (each->scheduled < 0) each->scheduled = now;
    if (each->preempted_at < 0) each->mark = totals.parts;
    if (each->handed.end >= 0 && each->handed.resumed < 0) each->handed.resumed = now;
  }
}

std::optional<std::int64_t> Instance::steady_iterations(double now) const {
  if (batch_.empty()) return scheduler.waiting.empty() ? std::nullopt : std::optional<std::int64_t>(1);
  if (!scheduler.is_steady()) return 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [sequence, tokens] : batch_) {
    if (sequence->last_token != now) return 1;
    most = std::min<std::int64_t>(most, sequence->output - sequence->generated);
  }
  const std::int64_t available = scheduler.cache.free_blocks(), size = scheduler.cache.block_tokens();
  if (available >= static_cast<std::int64_t>(batch_.size()) * (most / size + 1)) return most;
  std::int64_t low = 1, high = most;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    std::int64_t needed = 0;
    for (const auto& [sequence, tokens] : batch_) {
      const std::int64_t more = sequence->computed + middle - sequence->capacity;
      if (more > 0) needed += (more + size - 1) / size;
    }
    if (needed <= available) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void Instance::begin(const Iterations& iterations) {
  under_way_ = iterations;
  is_busy_ = true;
}

void Instance::reserve(std::int64_t count) {
  for (const auto& [sequence, tokens] : batch_) scheduler.cache.grow(*sequence, sequence->computed + static_cast<Tokens>(count));
}

void Instance::cut(std::int64_t count) {
  const double share = static_cast<double>(count - 1) / static_cast<double>(under_way_.count - 1);
  for (std::size_t part = 0; part < kParts; ++part) {
    const double first = under_way_.first[part];
    under_way_.last[part] = count > 1 ? first + (under_way_.last[part] - first) * share : first;
  }
  under_way_.count = count;
}

void Instance::end(double now, WeightedValues& gaps) {
  const std::int64_t before = scheduler.cache.used_blocks();
  const double busy = account_until(now);
  is_busy_ = false;
  finished.clear();
  first_tokens.clear();
  if (under_way_.count > 1) {
    end_jump(now, gaps);
  } else {
    end_one(now, gaps);
  }
  count(busy, before);
  if (finished.empty()) return;
  for (Sequence* each : finished) account(*each, each->first_token < 0 ? each->prefill : each->decode);
  scheduler.finish(finished);
}

void Instance::end_one(double now, WeightedValues& gaps) {
  std::int64_t steady = 0;
  for (const auto& [each, tokens] : batch_) {
    Sequence& sequence = *each;
    sequence.computed += tokens;
    if (sequence.computed < sequence.total) continue;
    ++sequence.total;
    ++sequence.generated;
    if (sequence.drafts) verify(sequence, gaps);
    if (sequence.last_token == under_way_.start) {
      ++steady;
    } else if (sequence.first_token >= 0) {
      gaps.add(now - sequence.last_token, 1);
    } else {
      mark_first_token(sequence, now);
    }
    if (sequence.preempted_at >= 0) mark_resumed(sequence, now);
    sequence.last_token = now;
    if (sequence.is_done()) finished.push_back(&sequence);
  }
  if (steady) gaps.add(now - under_way_.start, steady);
}

void Instance::verify(Sequence& sequence, WeightedValues& gaps) {
  const Tokens accepted = std::min(speculation_->accept(sequence), sequence.output - sequence.generated);
  totals.tokens += sequence.drafts;
  sequence.drafts = 0;
  if (!accepted) return;
  sequence.total += accepted;
  sequence.computed += accepted;
  sequence.generated += accepted;
  gaps.add(0.0, accepted);
}

void Instance::end_jump(double now, WeightedValues& gaps) {
  const auto count = static_cast<Tokens>(under_way_.count);
  for (const auto& [each, tokens] : batch_) {
    Sequence& sequence = *each;
    sequence.computed += count;
    sequence.total += count;
    sequence.generated += count;
    scheduler.cache.grow(sequence, sequence.computed);
    sequence.last_token = now;
    if (sequence.is_done()) finished.push_back(&sequence);
  }
  gaps.add((now - under_way_.start) / static_cast<double>(count), under_way_.count * static_cast<std::int64_t>(batch_.size()));
}

double Instance::account_until(double now) {
  const double since = accounted_;
  accounted_ = now;
  if (!is_busy_) return 0.0;
  const double busy = now - since;
  const Parts parts = under_way_.parts();
  const double whole = sum_of(parts);
  if (whole != 0.0) {
    const double share = busy / whole;
    for (std::size_t part = 0; part < kParts; ++part) totals.parts[part] += share * parts[part];
  }
  totals.busy_s += busy;
  return busy;
}

void Instance::count(double busy, std::int64_t before) {
  const std::int64_t after = scheduler.cache.used_blocks();
  std::int64_t tokens = 0;
  for (const auto& planned : batch_) tokens += planned.second;
  totals.iterations += under_way_.count;
  totals.sequences += under_way_.count * static_cast<std::int64_t>(batch_.size());
  totals.tokens += under_way_.count * tokens;
  totals.kv_block_s += static_cast<double>(before + after) / 2 * busy;
  totals.peak_blocks = std::max(totals.peak_blocks, after);
}

void Instance::mark_preempted(Sequence& sequence, double now) {
  ++totals.preemptions;
  if (sequence.preempted_at >= 0) return;  // it was preempted again before it got a token
  account(sequence, sequence.first_token < 0 ? sequence.prefill : sequence.decode);
  sequence.preempted_at = now;
}

void Instance::mark_resumed(Sequence& sequence, double now) {
  const double waited = now - sequence.preempted_at;
  (sequence.first_token == now && sequence.generated == 1 ? sequence.preempted_before_first_s : sequence.preempted_s) += waited;
  sequence.preempted_at = -1.0;
  sequence.mark = totals.parts;
}

void Instance::mark_first_token(Sequence& sequence, double now) {
  sequence.first_token = now;
  if (sequence.preempted_at < 0) account(sequence, sequence.prefill);
  first_tokens.push_back(&sequence);
}

void Instance::account(Sequence& sequence, Parts& known) {
  for (std::size_t part = 0; part < kParts; ++part) known[part] += totals.parts[part] - sequence.mark[part];
  sequence.mark = totals.parts;
}

}  // namespace astra::serving
