// Random numbers of one network: the same seed gives the same run.
#pragma once

#include <cstdint>
#include <random>

namespace astra::roce {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}

  // A number from 0 on, below 1.
  double share() {
    ++drawn_;
    return static_cast<double>(generator_() >> 11) * 0x1.0p-53;
  }
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(share() * count); }

  // How many numbers were drawn.
  std::uint64_t drawn() const { return drawn_; }

 private:
  std::mt19937_64 generator_;
  std::uint64_t drawn_ = 0;
};

}  // namespace astra::roce
