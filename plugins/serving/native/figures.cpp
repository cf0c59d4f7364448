#include "figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sums.hpp"

namespace astra::serving {

namespace {

double ttft(const Sequence& each) { return each.first_token - each.arrival; }
double e2e(const Sequence& each) { return each.last_token - each.arrival; }
bool has_tpot(const Sequence& each) { return each.generated >= 2; }
double tpot(const Sequence& each) { return (each.last_token - each.first_token) / static_cast<double>(each.generated - 1); }

using TtftCauses = std::array<double, kParts + 4>;
using TpotCauses = std::array<double, kParts + 2>;

// The means of rows of causes for groups by rank of their sums.
template <typename Causes>
std::vector<Band> bands_of(const std::vector<const Sequence*>& sequences, const std::vector<std::pair<double, double>>& bands,
                           Causes causes) {
  std::vector<std::pair<double, const Sequence*>> rows;
  rows.reserve(sequences.size());
  for (const Sequence* each : sequences) rows.emplace_back(sum_of(causes(*each)), each);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Band> result;
  const auto count = static_cast<double>(rows.size());
  for (const auto& [begin, end] : bands) {
    const auto first = static_cast<std::size_t>(std::nearbyint(begin * count)),
               last = static_cast<std::size_t>(std::nearbyint(end * count));
    Band band{static_cast<std::int64_t>(last) - static_cast<std::int64_t>(first), {}};
    if (band.count > 0) {
      std::vector<Sum> sums;
      for (std::size_t row = first; row < last; ++row) {
        const auto values = causes(*rows[row].second);
        sums.resize(values.size());
        for (std::size_t cause = 0; cause < values.size(); ++cause) sums[cause].add(values[cause]);
      }
      for (const Sum& each : sums) band.means.push_back(each.value() / static_cast<double>(band.count));
    }
    result.push_back(std::move(band));
  }
  return result;
}

}  // namespace

std::int64_t Figures::finished() const {
  return count_if([](const Sequence& each) { return each.is_done(); });
}

std::int64_t Figures::tokens() const {
  std::int64_t result = 0;
  for_each([&](const Sequence& each) { result += each.generated; });
  return result;
}

std::pair<std::int64_t, std::int64_t> Figures::preempted() const {
  std::pair<std::int64_t, std::int64_t> result{0, 0};
  for_each([&](const Sequence& each) {
    result.first += each.preemptions > 0;
    result.second += each.preemptions;
  });
  return result;
}

std::vector<std::pair<int, std::int64_t>> Figures::shed() const {
  std::vector<std::pair<int, std::int64_t>> result;
  for_each([&](const Sequence& each) {
    if (each.shed == Shed::kNo) return;
    const int reason = static_cast<int>(each.shed);
    const auto known = std::find_if(result.begin(), result.end(), [reason](const auto& entry) { return entry.first == reason; });
    if (known == result.end()) {
      result.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  });
  return result;
}

double Figures::last_token() const {
  double result = -1.0;
  for_each([&](const Sequence& each) { result = std::max(result, each.last_token); });
  return result;
}

std::int64_t Figures::finished_between(double begin, double end) const {
  return count_if([begin, end](const Sequence& each) { return each.is_done() && begin <= each.last_token && each.last_token <= end; });
}

std::int64_t Figures::within(const Slo& slo) const {
  const auto keeps = [](const std::optional<double>& limit, double seconds) { return !limit || seconds * 1e3 <= *limit; };
  return count_if([&](const Sequence& each) {
    return each.is_done() && keeps(slo.ttft_ms, ttft(each)) && (!has_tpot(each) || keeps(slo.tpot_ms, tpot(each))) &&
           keeps(slo.e2e_ms, e2e(each));
  });
}

std::optional<Summary> Figures::summary(const std::string& latency) const {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(end_ - begin_));
  for_each([&](const Sequence& each) {
    if (!each.is_done() || (latency == "tpot" && !has_tpot(each))) return;
    values.push_back(latency == "ttft"   ? ttft(each)
                     : latency == "tpot" ? tpot(each)
                     : latency == "e2e"  ? e2e(each)
                                         : each.scheduled - each.arrival);
  });
  return summary_of(values);
}

std::vector<Band> Figures::ttft_bands(double front_end_s, const std::vector<std::pair<double, double>>& bands) const {
  std::vector<const Sequence*> finished;
  for_each([&](const Sequence& each) {
    if (each.is_done()) finished.push_back(&each);
  });
  return bands_of(finished, bands, [front_end_s](const Sequence& each) {
    TtftCauses result{front_end_s, each.scheduled - each.arrival - front_end_s, 0.0};
    std::copy(each.prefill.begin(), each.prefill.end(), result.begin() + 3);
    result.back() = each.preempted_before_first_s;
    return result;
  });
}

std::vector<Band> Figures::tpot_bands(const std::vector<std::pair<double, double>>& bands) const {
  std::vector<const Sequence*> longer;
  for_each([&](const Sequence& each) {
    if (each.is_done() && has_tpot(each)) longer.push_back(&each);
  });
  return bands_of(longer, bands, [](const Sequence& each) {
    TpotCauses result{};
    std::copy(each.decode.begin(), each.decode.end(), result.begin());
    result[kParts] = each.preempted_s;
    result[kParts + 1] = each.handed.resumed >= 0 ? each.handed.resumed - each.first_token : 0.0;
    const auto tokens = static_cast<double>(each.generated - 1);
    for (double& cause : result) cause /= tokens;
    return result;
  });
}

}  // namespace astra::serving
