// Outcomes of drafted tokens: speculation.Speculation of Python.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "random_stream.hpp"
#include "request.hpp"

namespace astra::serving {

class Speculation {
 public:
  Speculation(double acceptance, RandomStream stream) : acceptance_(acceptance), stream_(stream) {}

  // The number of accepted tokens of a sequence's draft.
  Tokens accept(const Sequence& sequence) {
    constexpr std::uint64_t kAnswers = 1 << 24;
    const double chance =
        stream_.uniform(static_cast<std::uint64_t>(sequence.number) * kAnswers + static_cast<std::uint64_t>(sequence.generated));
    Tokens taken = sequence.drafts;
    if (acceptance_ < 1 && chance > 0) {
      const double accepted = acceptance_ > 0 ? std::log(chance) / std::log(acceptance_) : 0.0;
      taken = accepted < taken ? static_cast<Tokens>(accepted) : taken;
    }
    drafted += sequence.drafts;
    accepted_tokens += taken;
    return taken;
  }

  std::int64_t drafted = 0;
  std::int64_t accepted_tokens = 0;

 private:
  double acceptance_;
  RandomStream stream_;
};

}  // namespace astra::serving
