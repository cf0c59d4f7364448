// Trails: the last times at which what leads to an event was scheduled. See astra_sim/engine/reference.py.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace astra {

using Time = std::int64_t;  // picoseconds

constexpr std::size_t kTrailLength = 8;
using TrailTimes = std::array<Time, kTrailLength>;  // latest first; a shorter trail ends in -1

// Trails with reference counts. Many events share one, so an event holds its number only. Trail 0 is empty, and always there.
class Trails {
 public:
  Trails() {
    times_.emplace_back();
    times_[0].fill(-1);
    counts_.push_back(std::uint32_t{1} << 31);
  }

  void hold(std::uint32_t trail) { ++counts_[trail]; }

  void drop(std::uint32_t trail) {
    if (--counts_[trail] == 0) free_.push_back(trail);
  }

  // A trail with these times; the caller holds it.
  std::uint32_t make(const TrailTimes& times) {
    std::uint32_t trail;
    if (free_.empty()) {
      trail = static_cast<std::uint32_t>(times_.size());
      times_.push_back(times);
      counts_.push_back(1);
    } else {
      trail = free_.back();
      free_.pop_back();
      times_[trail] = times;
      counts_[trail] = 1;
    }
    return trail;
  }

  // The trail `after` with one more time in front; the caller holds it.
  std::uint32_t prepend(Time time, std::uint32_t after) {
    TrailTimes times;
    times[0] = time;
    std::copy_n(times_[after].begin(), kTrailLength - 1, times.begin() + 1);
    return make(times);
  }

  const TrailTimes& times(std::uint32_t trail) const { return times_[trail]; }

  bool equal(std::uint32_t a, std::uint32_t b) const { return a == b || times_[a] == times_[b]; }

  bool less(std::uint32_t a, std::uint32_t b) const { return a != b && times_[a] < times_[b]; }

 private:
  std::vector<TrailTimes> times_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint32_t> free_;
};

}  // namespace astra
