#include "record.hpp"

#include <string>

#include "errors.hpp"

namespace astra::engine {

void Record::observe(NpuId npu) {
  if (tasks_.is_observed(npu)) return;
  tasks_.observe(npu);
  chunks_.observe(npu);
}

NpuId Record::observed(NpuId npu) const {
  if (!tasks_.is_observed(npu)) invalid("NPU " + std::to_string(npu) + " is not observed");
  return npu;
}

}  // namespace astra::engine
