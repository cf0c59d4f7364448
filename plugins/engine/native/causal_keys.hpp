// Causal keys: the last times at which an event's predecessors were scheduled, latest first. They order the events of one stage.
//
// Many events share a causal key, so an event holds its number only, and causal keys count who holds them. Causal key 0 is empty and always
// there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

constexpr std::size_t kCausalKeyLength = 8;
using CausalKey = std::array<Time, kCausalKeyLength>;  // a shorter one ends in -1

class CausalKeys {
 public:
  // A causal key that is held as long as this lives.
  class Held {
   public:
    Held(CausalKeys& causal_keys, CausalKeyId id) : causal_keys_(causal_keys), id_(id) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { causal_keys_.drop(id_); }
    operator CausalKeyId() const { return id_; }

   private:
    CausalKeys& causal_keys_;
    CausalKeyId id_;
  };

  CausalKeys() {
    times_.emplace_back();
    times_[0].fill(-1);
    counts_.push_back(std::uint32_t{1} << 31);
  }

  void hold(CausalKeyId id) { ++counts_[id]; }

  // Let go of a causal key that was held several times.
  void drop(CausalKeyId id, std::uint32_t times = 1) {
    if ((counts_[id] -= times) == 0) free_.push_back(id);
  }

  // Hold another causal key in a place.
  void replace(CausalKeyId& place, CausalKeyId id) {
    hold(id);
    drop(place);
    place = id;
  }

  // A causal key with these times; the caller holds it.
  CausalKeyId make(const CausalKey& times) {
    const CausalKeyId id = take();
    times_[id] = times;
    return id;
  }

  // The causal key of one time; the caller holds it.
  CausalKeyId make(Time time) {
    CausalKey times;
    times.fill(-1);
    times[0] = time;
    return make(times);
  }

  // The causal key `after` with one more time in front; the caller holds it.
  CausalKeyId prepend(Time time, CausalKeyId after) {
    const CausalKeyId id = take();
    CausalKey& times = times_[id];
    times[0] = time;
    std::memcpy(times.data() + 1, times_[after].data(), sizeof(CausalKey) - sizeof(Time));  // never the same causal key
    return id;
  }

  const CausalKey& times(CausalKeyId id) const { return times_[id]; }
  bool equal(CausalKeyId a, CausalKeyId b) const { return a == b || times_[a] == times_[b]; }
  bool less(CausalKeyId a, CausalKeyId b) const { return a != b && times_[a] < times_[b]; }

 private:
  // The number of a causal key that is held once, and whose times are to be written.
  CausalKeyId take() {
    if (free_.empty()) {
      times_.emplace_back();
      counts_.push_back(1);
      return next_id(times_) - 1;
    }
    const CausalKeyId id = free_.back();
    free_.pop_back();
    counts_[id] = 1;
    return id;
  }

  std::vector<CausalKey> times_;
  std::vector<std::uint32_t> counts_;
  std::vector<CausalKeyId> free_;
};

// Causal keys that are needed in the current instant alone: they are held until another is, in a later instant.
class InstantKeys {
 public:
  void hold(CausalKeys& causal_keys, Time now, CausalKeyId id) {
    if (at_ != now) {
      for (const CausalKeyId each : ids_) causal_keys.drop(each);
      ids_.clear();
      at_ = now;
    } else if (!ids_.empty() && ids_.back() == id) {
      return;
    }
    causal_keys.hold(id);
    ids_.push_back(id);
  }

 private:
  std::vector<CausalKeyId> ids_;
  Time at_ = -1;
};

// The latest causal key that one use of `prepend` has made, which it holds: most events that are scheduled share it.
class RecentKey {
 public:
  // The causal key `of` with a time in front.
  CausalKeyId prepend(CausalKeys& causal_keys, Time time, CausalKeyId of) {
    return of_ == of && at_ == time ? causal_key_ : prepend_anew(causal_keys, time, of);
  }

 private:
  CausalKeyId prepend_anew(CausalKeys& causal_keys, Time time, CausalKeyId of);

  CausalKeyId causal_key_ = 0;
  CausalKeyId of_ = kNone;
  Time at_ = -1;
};

}  // namespace astra::engine
