// Random numbers by counter: astra_sim.random.RandomStream of Python.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace astra::serving {

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) : start_(seed) {
    for (const char each : name) start_ = mixed(start_ + kGamma + static_cast<unsigned char>(each));
  }
  explicit RandomStream(std::uint64_t seed) : start_(seed) {}

  std::uint64_t word(std::uint64_t counter) const { return mixed(start_ + (counter + 1) * kGamma); }
  // A number of [0, 1).
  double uniform(std::uint64_t counter) const { return static_cast<double>(word(counter) >> 11) * 0x1p-53; }
  double exponential(std::uint64_t counter) const { return -std::log1p(-uniform(counter)); }
  double normal(std::uint64_t counter) const {
    const double radius = std::sqrt(-2 * std::log1p(-uniform(2 * counter)));
    return radius * std::cos(2 * std::numbers::pi * uniform(2 * counter + 1));
  }

 private:
  static constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15u;

  static std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
  }

  std::uint64_t start_;
};

}  // namespace astra::serving
