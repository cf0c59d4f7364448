// The work of an iteration: batch.BatchShape of Python.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "request.hpp"

namespace astra::serving {

constexpr std::int64_t kPairQuantum = 16;
constexpr std::int64_t kKvQuantum = 16;

using Batch = std::vector<std::pair<Sequence*, Tokens>>;

struct BatchShape {
  std::int64_t chunk = 0;
  double pairs = 0.0;
  std::int64_t decodes = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t kv_longest = 0;
  std::int64_t sampled = 0;
  std::int64_t drafts = 0;

  std::int64_t tokens() const { return chunk + decodes + drafts; }

  double draft_rounds() const { return decodes ? static_cast<double>(drafts) / static_cast<double>(decodes) : 0.0; }

  // The work in which each decoding sequence gets one more token of its draft.
  BatchShape drafting() const { return {0, 0.0, decodes, kv_tokens, kv_longest, decodes, 0}; }

  std::int64_t attention_chunk() const {
    const double size = static_cast<double>(chunk);
    if (2 * pairs >= size * size) return chunk;
    const auto quanta = static_cast<std::int64_t>(std::nearbyint(std::sqrt(2 * pairs) / static_cast<double>(kPairQuantum)));
    return std::min(chunk, kPairQuantum * std::max<std::int64_t>(1, quanta));
  }

  double chunk_context() const {
    const double size = static_cast<double>(chunk);
    return chunk ? std::max(0.0, pairs / size - size / 2) : 0.0;
  }

  double kv_mean() const { return decodes ? static_cast<double>(kv_tokens) / static_cast<double>(decodes) : 0.0; }

  BatchShape later(std::int64_t iterations) const {
    BatchShape result = *this;
    result.kv_tokens += iterations * decodes;
    result.kv_longest += iterations;
    return result;
  }
};

inline std::int64_t kv_quanta(double tokens) { return static_cast<std::int64_t>(std::nearbyint(tokens / static_cast<double>(kKvQuantum))); }

inline BatchShape shape_of(const Batch& batch) {
  BatchShape result;
  for (const auto& [sequence, tokens] : batch) {
    const std::int64_t end = std::int64_t{sequence->computed} + tokens;
    if (tokens == 1) {
      ++result.decodes;
      result.drafts += sequence->drafts;
      result.kv_tokens += end;
      result.kv_longest = std::max(result.kv_longest, end);
    } else {
      result.chunk += tokens;
      const double count = tokens;
      result.pairs += count * (sequence->computed + count / 2);
    }
    if (end == sequence->total) ++result.sampled;
  }
  return result;
}

}  // namespace astra::serving
