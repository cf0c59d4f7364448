#include "lengths.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace astra::serving {

std::int64_t LengthSampler::draw(const RandomStream& stream, std::uint64_t counter, std::int64_t most) const {
  const std::int64_t length = unlimited(RandomStream(stream.word(counter)), most);
  return maximum ? std::min(length, maximum) : length;
}

std::int64_t LengthSampler::unlimited(const RandomStream& stream, std::int64_t most) const {
  if (distribution == "mixture") {
    const double u = stream.uniform(0);
    std::size_t part = 0;
    while (part + 1 < numbers.size() && u >= numbers[part]) ++part;
    return parts[part].draw(stream, 1, most);
  }
  if (distribution == "uniform") {
    const double low = numbers[0], high = numbers[1];
    return static_cast<std::int64_t>(low) + static_cast<std::int64_t>(stream.uniform(0) * (high - low + 1));
  }
  if (distribution == "lognormal") {
    const double length = std::nearbyint(std::exp(numbers[0] + numbers[1] * stream.normal(0)));
    return length < static_cast<double>(most) ? std::max<std::int64_t>(1, static_cast<std::int64_t>(length)) : most;
  }
  if (distribution == "empirical") return values[static_cast<std::size_t>(stream.uniform(0) * static_cast<double>(values.size()))];
  return values[0];
}

}  // namespace astra::serving
