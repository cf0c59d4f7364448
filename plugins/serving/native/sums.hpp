// Sums that round as those of Python's built-in `sum`, so that both loops give the same bits.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace astra::serving {

// From Python 3.12 on `sum` keeps what is lost by rounding (Neumaier, ZAMM 54, 1974); the module finds out which it is.
inline bool compensates = false;

class Sum {
 public:
  void add(double value) {
    const double sum = sum_ + value;
    if (compensates && !first_) lost_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
    first_ = false;
    sum_ = sum;
  }

  double value() const { return lost_ != 0.0 && std::isfinite(lost_) ? sum_ + lost_ : sum_; }

 private:
  double sum_ = 0.0;
  double lost_ = 0.0;
  bool first_ = true;
};

// The parts of the time of an iteration, in the order of request.PARTS.
constexpr std::size_t kParts = 5;
using Parts = std::array<double, kParts>;

template <std::size_t n>
double sum_of(const std::array<double, n>& values) {
  Sum sum;
  for (const double each : values) sum.add(each);
  return sum.value();
}

}  // namespace astra::serving
