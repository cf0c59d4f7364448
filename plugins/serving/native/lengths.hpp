// Lengths of prompts and answers, drawn by counter: lengths.LengthSampler of Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "random_stream.hpp"

namespace astra::serving {

// Of `numbers` a uniform distribution has the lowest and the highest length, a lognormal one the logarithm of its median and its sigma, a
// mixture where the shares of its parts end.
struct LengthSampler {
  std::string distribution;
  std::vector<double> numbers;
  std::vector<std::int64_t> values;  // empirical; the first is that of a constant
  std::int64_t maximum = 0;          // 0: none
  std::vector<LengthSampler> parts;

  // The length of a counter; not below 0, and not beyond `most`.
  std::int64_t draw(const RandomStream& stream, std::uint64_t counter, std::int64_t most) const;

 private:
  std::int64_t unlimited(const RandomStream& stream, std::int64_t most) const;
};

}  // namespace astra::serving
