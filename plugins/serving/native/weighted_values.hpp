// Values with counts, and their statistics: metrics.py of Python.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace astra::serving {

using Weighted = std::pair<double, std::int64_t>;
using Summary = std::array<double, 6>;  // mean, percentiles and maximum

constexpr std::array<int, 4> kPercentiles{50, 90, 95, 99};

// The summary of values with counts in ascending order; nothing if there are none.
std::optional<Summary> summary_of(const std::vector<Weighted>& sorted);
// The same of plain values, which are sorted.
std::optional<Summary> summary_of(std::vector<double>& values);

// Gaps between tokens, of which many requests have the same.
class WeightedValues {
 public:
  void add(double value, std::int64_t count) {
    if (values_.size() == merge_at_) merge();
    values_.emplace_back(value, count);
  }

  // All values in ascending order, each once.
  const std::vector<Weighted>& sorted() {
    merge();
    return values_;
  }

 private:
  void merge();

  std::vector<Weighted> values_;
  std::size_t merge_at_ = 1 << 16;
};

}  // namespace astra::serving
