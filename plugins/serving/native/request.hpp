// A request, and its progress: request.Sequence of Python. Times are seconds of the run, and -1 until they are known.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "sums.hpp"

namespace astra::serving {

using Tokens = std::int32_t;
using Number = std::int32_t;

constexpr Tokens kMostTokens = 1 << 28;
// Prompts and answers together are shorter than twice this, so that counts of tokens never overflow.

enum class Shed : std::uint8_t { kNo, kPrompt, kAnswer, kModelTokens, kQueueFull };

struct Request {
  double arrival = 0.0;
  std::int64_t priority = 0;
  std::int64_t content = 0;  // where its identified contents are
  Tokens input = 0;
  Tokens output = 0;
  Tokens shared = 0;  // tokens of the prompt whose content is identified
  Tokens content_tokens = 0;
  Tokens max_new_tokens = 0;  // the longest answer that the server assumes
  Number number = 0;
  Number model = 0;

  std::tuple<std::int64_t, double, Number> order() const { return {priority, arrival, number}; }
};

// Keys and values that come from another instance.
struct Handed {
  Number sender = -1;
  double end = -1.0;      // when they had come
  double resumed = -1.0;  // when the sequence then ran
};

struct Sequence : Request {
  Tokens total = 0;
  Tokens computed = 0;
  Tokens generated = 0;
  Tokens capacity = 0;
  Tokens cached = 0;
  Tokens drafts = 0;  // drafted tokens, which the next iteration verifies
  Number preemptions = 0;
  Number instance = -1;
  Shed shed = Shed::kNo;
  double scheduled = -1.0;
  double first_token = -1.0;
  double last_token = -1.0;
  double preempted_at = -1.0;
  double preempted_s = 0.0;
  double preempted_before_first_s = 0.0;
  Handed handed;
  Parts mark{};
  Parts prefill{};
  Parts decode{};
  std::vector<std::int32_t> blocks;

  Tokens missing() const { return total - computed; }
  bool is_done() const { return generated >= output; }
};

}  // namespace astra::serving
