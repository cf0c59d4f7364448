#include "events.hpp"

namespace astra::engine {

std::span<const Event> Events::next_level() {
  const std::span<const Event> level = queue_.pop(level_);
  if (!orders_.contended() || level.size() == 1 || queue_.stage().is_ends() || !token_merge_.tokens_meet(level_)) return level;
  token_merge_.merge(level_, !causes_);
  return level_;
}

}  // namespace astra::engine
