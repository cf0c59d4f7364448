#include "weighted_values.hpp"

#include <algorithm>

#include "sums.hpp"

namespace astra::serving {

namespace {

// Percentiles by linear interpolation; `at` gives the value of a rank, for ranks that never fall.
template <typename At>
Summary summary(double mean, std::int64_t total, double maximum, At at) {
  Summary result{mean};
  for (std::size_t place = 0; place < kPercentiles.size(); ++place) {
    const double rank = static_cast<double>(kPercentiles[place]) / 100 * static_cast<double>(total - 1);
    const auto low = static_cast<std::int64_t>(rank);
    const double share = rank - static_cast<double>(low);
    double value = at(low);
    if (share != 0.0) {
      const double next = at(low + 1);
      if (next != value) value += share * (next - value);
    }
    result[place + 1] = value;
  }
  result.back() = maximum;
  return result;
}

}  // namespace

std::optional<Summary> summary_of(const std::vector<Weighted>& sorted) {
  Sum sum;
  std::int64_t total = 0;
  for (const auto& [value, count] : sorted) {
    sum.add(value * static_cast<double>(count));
    total += count;
  }
  if (!total) return std::nullopt;
  std::vector<std::int64_t> ends;
  ends.reserve(sorted.size());
  std::int64_t passed = 0;
  for (const auto& each : sorted) ends.push_back(passed += each.second);
  const auto at = [&](std::int64_t rank) {
    return sorted[static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), rank) - ends.begin())].first;
  };
  return summary(sum.value() / static_cast<double>(total), total, sorted.back().first, at);
}

std::optional<Summary> summary_of(std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  Sum sum;
  for (const double each : values) sum.add(each);
  const auto total = static_cast<std::int64_t>(values.size());
  const auto at = [&](std::int64_t rank) { return values[static_cast<std::size_t>(rank)]; };
  return summary(sum.value() / static_cast<double>(total), total, values.back(), at);
}

void WeightedValues::merge() {
  std::sort(values_.begin(), values_.end(), [](const Weighted& a, const Weighted& b) { return a.first < b.first; });
  std::size_t count = 0;
  for (const Weighted& each : values_) {
    if (count && values_[count - 1].first == each.first) {
      values_[count - 1].second += each.second;
    } else {
      values_[count++] = each;
    }
  }
  values_.resize(count);
  merge_at_ = std::max<std::size_t>(merge_at_, 2 * count);
}

}  // namespace astra::serving
