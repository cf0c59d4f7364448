#include "router.hpp"

#include <cstdint>
#include <limits>
#include <utility>

namespace astra::serving {

namespace {

template <typename Load>
std::size_t least_loaded(const Takers& takers, Load load) {
  std::size_t best = 0;
  double least = load(*takers.front());
  for (std::size_t each = 1; each < takers.size(); ++each) {
    const double here = load(*takers[each]);
    if (here < least) {
      best = each;
      least = here;
    }
  }
  return best;
}

std::size_t two_choices(const Sequence& sequence, const Takers& takers, const RandomStream& stream) {
  const auto number = static_cast<std::uint64_t>(sequence.number);
  const std::size_t count = takers.size();
  const auto first = static_cast<std::size_t>(stream.uniform(2 * number) * static_cast<double>(count));
  if (count == 1) return first;
  const auto step = static_cast<std::size_t>(stream.uniform(2 * number + 1) * static_cast<double>(count - 1));
  const std::size_t second = (first + 1 + step) % count;
  return takers[second]->requests() < takers[first]->requests() ? second : first;
}

std::size_t with_prefix(const Sequence& sequence, const Takers& takers, double beta) {
  std::int64_t requests = 0;
  for (const Instance* each : takers) requests += each->requests();
  double mean = static_cast<double>(requests) / static_cast<double>(takers.size());
  if (mean == 0.0) mean = 1.0;
  std::size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t each = 0; each < takers.size(); ++each) {
    Instance& instance = *takers[each];
    const double cached = static_cast<double>(instance.scheduler.cache.match_tokens(sequence)) / static_cast<double>(sequence.input);
    const double value = cached - beta * static_cast<double>(instance.requests()) / mean;
    if (value > most) {
      best = each;
      most = value;
    }
  }
  return best;
}

std::size_t chosen(const Sequence& sequence, const Takers& takers, const Chooser& chooser) {
  std::vector<Number> numbers;
  for (const Instance* each : takers) numbers.push_back(each->number());
  return chooser(sequence.number, numbers);
}

}  // namespace

Router::Router(const std::string& policy, double prefix_beta, RandomStream stream, Chooser chooser) {
  if (policy == "round-robin") {
    place_ = [turn = std::uint64_t{0}](const Sequence&, const Takers& takers) mutable {
      return static_cast<std::size_t>(turn++ % takers.size());
    };
  } else if (policy == "random") {
    place_ = [stream](const Sequence& each, const Takers& takers) {
      return static_cast<std::size_t>(stream.uniform(static_cast<std::uint64_t>(each.number)) * static_cast<double>(takers.size()));
    };
  } else if (policy == "two-choices") {
    place_ = [stream](const Sequence& each, const Takers& takers) { return two_choices(each, takers, stream); };
  } else if (policy == "prefix") {
    place_ = [prefix_beta](const Sequence& each, const Takers& takers) { return with_prefix(each, takers, prefix_beta); };
  } else if (policy == "chosen") {
    place_ = [chooser = std::move(chooser)](const Sequence& each, const Takers& takers) { return chosen(each, takers, chooser); };
  } else if (policy == "least-requests") {
    place_ = [](const Sequence&, const Takers& takers) {
      return least_loaded(takers, [](const Instance& each) { return static_cast<double>(each.requests()); });
    };
  } else if (policy == "least-waiting") {
    place_ = [](const Sequence&, const Takers& takers) {
      return least_loaded(takers, [](const Instance& each) {
        return static_cast<double>(4 * each.scheduler.waiting.size() + each.scheduler.running.size());
      });
    };
  } else if (policy == "least-tokens") {
    place_ = [](const Sequence&, const Takers& takers) {
      return least_loaded(takers, [](const Instance& each) { return static_cast<double>(each.outstanding_tokens()); });
    };
  } else {
    place_ = [](const Sequence&, const Takers& takers) {
      return least_loaded(takers, [](const Instance& each) {
        return static_cast<double>(each.scheduler.cache.used_blocks()) / static_cast<double>(each.scheduler.cache.blocks());
      });
    };
  }
}

}  // namespace astra::serving
