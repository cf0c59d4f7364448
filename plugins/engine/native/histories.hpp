// Histories: the last times at which an event's predecessors were scheduled, latest first. They order the events of one stage.
//
// Many events share a history, so an event holds its number only, and histories count who holds them. History 0 is empty and always there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

constexpr std::size_t kHistoryLength = 8;
using History = std::array<Time, kHistoryLength>;  // a shorter one ends in -1

class Histories {
 public:
  // A history that is held as long as this lives.
  class Held {
   public:
    Held(Histories& histories, HistoryId id) : histories_(histories), id_(id) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { histories_.drop(id_); }
    operator HistoryId() const { return id_; }

   private:
    Histories& histories_;
    HistoryId id_;
  };

  Histories() {
    times_.emplace_back();
    times_[0].fill(-1);
    counts_.push_back(std::uint32_t{1} << 31);
  }

  void hold(HistoryId id) { ++counts_[id]; }

  // Let go of a history that was held several times.
  void drop(HistoryId id, std::uint32_t times = 1) {
    if ((counts_[id] -= times) == 0) free_.push_back(id);
  }

  // Hold another history in a place.
  void replace(HistoryId& place, HistoryId id) {
    hold(id);
    drop(place);
    place = id;
  }

  // A history with these times; the caller holds it.
  HistoryId make(const History& times) {
    const HistoryId id = take();
    times_[id] = times;
    return id;
  }

  // The history of one time; the caller holds it.
  HistoryId make(Time time) {
    History times;
    times.fill(-1);
    times[0] = time;
    return make(times);
  }

  // The history `after` with one more time in front; the caller holds it.
  HistoryId prepend(Time time, HistoryId after) {
    const HistoryId id = take();
    History& times = times_[id];
    times[0] = time;
    std::memcpy(times.data() + 1, times_[after].data(), sizeof(History) - sizeof(Time));  // never the same history
    return id;
  }

  const History& times(HistoryId id) const { return times_[id]; }
  bool equal(HistoryId a, HistoryId b) const { return a == b || times_[a] == times_[b]; }
  bool less(HistoryId a, HistoryId b) const { return a != b && times_[a] < times_[b]; }

 private:
  // The number of a history that is held once, and whose times are to be written.
  HistoryId take() {
    if (free_.empty()) {
      times_.emplace_back();
      counts_.push_back(1);
      return next_id(times_) - 1;
    }
    const HistoryId id = free_.back();
    free_.pop_back();
    counts_[id] = 1;
    return id;
  }

  std::vector<History> times_;
  std::vector<std::uint32_t> counts_;
  std::vector<HistoryId> free_;
};

}  // namespace astra::engine
