// The tokens of a level if NPUs wait for each other: those of one NPU happen together, where its first one is.
//
// ASTRA-sim keeps a list of each endpoint's tokens for every instant: the first of them has its place among all events, the others follow.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "event_queue.hpp"
#include "ids.hpp"

namespace astra::engine {

class TokenMerge {
 public:
  explicit TokenMerge(std::size_t npus) : has_token_(npus / 64 + 1), tokens_of_(npus) {}

  // Whether an NPU has several tokens in a level, apart from each other.
  bool tokens_meet(const std::vector<Event>& level);
  // Let the tokens of an NPU happen together, if the first of them does; `as_runs`: equal events may become one.
  void merge(std::vector<Event>& level, bool as_runs);

 private:
  static constexpr std::uint32_t kKeptLevel = std::uint32_t{1} << 14;  // the room of a larger level is given back

  // A token of a level by the place of its event, and the next one of its NPU.
  struct Token {
    std::uint32_t place, next;
  };
  struct TokenList {
    std::uint32_t first = kNone, last = kNone;
  };

  // Add the token of an NPU, one of an event of the level, to the merged level.
  void add(const Event& event, NpuId npu, bool as_runs);

  std::vector<std::uint64_t> has_token_;  // a bit for each NPU, clear between levels
  std::vector<Token> tokens_;             // of this level
  std::vector<TokenList> tokens_of_;      // of each NPU, empty between levels
  std::vector<Event> merged_;
};

}  // namespace astra::engine
