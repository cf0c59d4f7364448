// Figures of a run from its columns: astra_sim/report/spans.py in C++.
//
// A span is the time from a begin to an end. How much time several cover together is the length of their union.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

using Spans = std::vector<std::pair<Time, Time>>;  // begin and end

// Disjoint spans, in order, that cover the same time; `spans` is given up.
Spans union_of(Spans spans);

// How long tasks take in all, and how much time they cover. Those of a kind whose duration is negative are left out. `times` are those of
// tasks that have one of their own (else -1), or nothing.
std::pair<Time, Time> computing(const std::vector<std::uint32_t>& kind_of, const std::vector<Time>& durations,
                                const std::vector<Time>& times, const std::vector<Time>& ended);

struct Use {
  Time spent = 0;  // from start to end
  Spans spans;     // from being queued to the end, as a union
};

// For each phase step how often it is there, and for each group of steps its use. A step may be in several groups, or none.
struct Uses {
  std::vector<std::uint64_t> counts;
  std::vector<Use> groups;
};

Uses uses_of(const std::vector<Time>& step, const std::vector<Time>& queued, const std::vector<Time>& started,
             const std::vector<Time>& ended, const std::vector<std::vector<std::uint32_t>>& groups_of, std::size_t groups);

// Parts one after another, in the order of `numbers`, each with an offset added to its members.
std::vector<Time> repeated(const std::vector<std::vector<Time>>& parts, const std::vector<std::uint32_t>& numbers,
                           const std::vector<Time>& offsets);

}  // namespace astra::engine
