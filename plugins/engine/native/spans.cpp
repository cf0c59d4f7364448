#include "spans.hpp"

#include <algorithm>
#include <stdexcept>

namespace astra::engine {

Spans union_of(Spans spans) {
  if (!std::is_sorted(spans.begin(), spans.end())) std::sort(spans.begin(), spans.end());
  std::size_t retained = 0;
  for (const auto& [begin, end] : spans) {
    if (retained && begin <= spans[retained - 1].second) {
      spans[retained - 1].second = std::max(spans[retained - 1].second, end);
    } else {
      spans[retained++] = {begin, end};
    }
  }
  spans.resize(retained);
  return spans;
}

std::pair<Time, Time> computing(const std::vector<std::uint32_t>& kind_of, const std::vector<Time>& durations,
                                const std::vector<Time>& times, const std::vector<Time>& ended) {
  if (kind_of.size() != ended.size() || (!times.empty() && times.size() != ended.size()))
    throw std::invalid_argument("columns of different lengths");
  Spans spans;
  Time sum = 0, covered = 0;
  for (std::size_t row = 0; row < kind_of.size(); ++row) {
    if (kind_of[row] >= durations.size()) throw std::invalid_argument("a task of no kind");
    Time duration = durations[kind_of[row]];
    if (duration < 0) continue;
    if (!times.empty() && times[row] >= 0) duration = times[row];
    sum += duration;
    spans.emplace_back(ended[row] - duration, ended[row]);
  }
  for (const auto& [begin, end] : union_of(std::move(spans))) covered += end - begin;
  return {sum, covered};
}

Uses uses_of(const std::vector<Time>& step, const std::vector<Time>& queued, const std::vector<Time>& started,
             const std::vector<Time>& ended, const std::vector<std::vector<std::uint32_t>>& groups_of, std::size_t groups) {
  if (queued.size() != step.size() || started.size() != step.size() || ended.size() != step.size()) {
    throw std::invalid_argument("columns of different lengths");
  }
  Uses uses{std::vector<std::uint64_t>(groups_of.size()), std::vector<Use>(groups)};
  for (std::size_t row = 0; row < step.size(); ++row) {
    const auto number = narrow<std::size_t>(step[row]);
    if (step[row] < 0 || number >= groups_of.size()) throw std::invalid_argument("a step that is none");
    ++uses.counts[number];
    for (const std::uint32_t group : groups_of[number]) {
      if (group >= groups) throw std::invalid_argument("a step of no group");
      Use& use = uses.groups[group];
      use.spent += ended[row] - started[row];
      use.spans.emplace_back(queued[row], ended[row]);
    }
  }
  for (Use& use : uses.groups) use.spans = union_of(std::move(use.spans));
  return uses;
}

std::vector<Time> repeated(const std::vector<std::vector<Time>>& parts, const std::vector<std::uint32_t>& numbers,
                           const std::vector<Time>& offsets) {
  if (numbers.size() != offsets.size()) throw std::invalid_argument("columns of different lengths");
  std::size_t size = 0;
  for (const std::uint32_t number : numbers) {
    if (number >= parts.size()) throw std::invalid_argument("a part that is none");
    size += parts[number].size();
  }
  std::vector<Time> result;
  result.reserve(size);
  for (std::size_t place = 0; place < numbers.size(); ++place) {
    for (const Time time : parts[numbers[place]]) result.push_back(time + offsets[place]);
  }
  return result;
}

}  // namespace astra::engine
