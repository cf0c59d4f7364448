// SPDX-License-Identifier: GPL-2.0-only
// Ways of least cost to each NPU. They are found for an NPU when the first packet goes to it.
#pragma once

#include <astra_sim/shortest_ways.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "settings.hpp"

namespace astra::tcp {

class Routes {
 public:
  explicit Routes(const Plan& plan);

  // The links with which shortest ways from a node to an NPU begin; none where there is no way.
  std::span<const std::uint32_t> ways(std::uint32_t node, std::uint32_t npu);

  // Two NPUs without a way from the first to the second, and how many links the longest of all ways of least cost has.
  struct Check {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> unreachable;
    int longest = 0;
  };
  static Check check(const Plan& plan);

 private:
  // Ways to one NPU: of node n those from place begin[n] to begin[n + 1].
  struct Table {
    std::vector<std::uint32_t> begin, links;
  };
  // Of each node: the cost of the cheapest way, and of such ways the most links; kNoWay where there is none.
  struct Distances {
    std::vector<int> cost, links;
  };

  const Table& table(std::uint32_t npu);
  Distances distances(std::uint32_t npu);

  const Plan& plan_;
  ShortestWays search_;
  std::vector<std::vector<std::uint32_t>> leaving_, entering_;  // links of each node
  std::vector<std::unique_ptr<Table>> tables_;                  // of each NPU
};

}  // namespace astra::tcp
