#include "causal_keys.hpp"

namespace astra::engine {

CausalKeyId RecentKey::prepend_anew(CausalKeys& causal_keys, Time time, CausalKeyId of) {
  const CausalKeyId causal_key = causal_keys.prepend(time, of);
  if (of_ != kNone) causal_keys.drop(of_);
  causal_keys.drop(causal_key_);
  causal_keys.hold(of);
  causal_key_ = causal_key;
  of_ = of;
  at_ = time;
  return causal_key;
}

}  // namespace astra::engine
