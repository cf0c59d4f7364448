#include "processors.hpp"

#include <algorithm>

#include "errors.hpp"

namespace astra::engine {

void Processors::set_overheads(bool compute) {
  handle_messages_ = true;
  compute_ = compute;
  free_at_.assign(npus_, 0);
}

Time Processors::free_from(NpuId npu, Time now) const { return compute_ ? std::max(now, free_at_[npu]) : now; }

Time Processors::compute(NpuId npu, Time begin, Time duration) {
  const Time end = sum(begin, duration);
  if (compute_) free_at_[npu] = end;
  return end;
}

Time Processors::handle(NpuId npu, Time now, std::int64_t bytes, bool receives) {
  const auto [known, added] = spent_on_[receives].try_emplace(bytes, 0);
  if (added) known->second = host_.overhead(bytes, receives);
  return free_at_[npu] = sum(std::max(now, free_at_[npu]), known->second);
}

}  // namespace astra::engine
