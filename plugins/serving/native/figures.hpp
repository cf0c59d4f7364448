// The figures of the requests of a run: what RequestFigures of figures.py calculates in Python.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "request.hpp"
#include "weighted_values.hpp"

namespace astra::serving {

// Milliseconds; nothing: no limit.
struct Slo {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> e2e_ms;
};

// Requests of a band, and the mean of each cause.
struct Band {
  std::int64_t count;
  std::vector<double> means;
};

// The first `count` sequences, which have arrived: those of a model, or of all for -1.
class Figures {
 public:
  Figures(const std::vector<Sequence>& sequences, std::int64_t count, Number model)
      : begin_(sequences.data()), end_(sequences.data() + count), model_(model) {}

  std::int64_t finished() const;
  std::int64_t tokens() const;
  std::pair<std::int64_t, std::int64_t> preempted() const;
  // Requests that were shed, by reason, in the order in which reasons came up.
  std::vector<std::pair<int, std::int64_t>> shed() const;
  double last_token() const;
  // Requests that finish between two moments.
  std::int64_t finished_between(double begin, double end) const;
  std::int64_t within(const Slo& slo) const;
  std::optional<Summary> summary(const std::string& latency) const;
  // Means of the causes of the time to the first token, or of further ones, by bands of requests.
  std::vector<Band> ttft_bands(double front_end_s, const std::vector<std::pair<double, double>>& bands) const;
  std::vector<Band> tpot_bands(const std::vector<std::pair<double, double>>& bands) const;

 private:
  template <typename Do>
  void for_each(Do what) const {
    for (const Sequence* each = begin_; each != end_; ++each) {
      if (model_ < 0 || each->model == model_) what(*each);
    }
  }
  template <typename Condition>
  std::int64_t count_if(Condition condition) const {
    std::int64_t result = 0;
    for_each([&](const Sequence& each) { result += condition(each); });
    return result;
  }

  const Sequence* begin_;
  const Sequence* end_;
  Number model_;
};

}  // namespace astra::serving
