// SPDX-License-Identifier: GPL-2.0-only
// Shortest ways to each NPU, by the number of links. They are found for an NPU when the first packet goes to it.
#pragma once

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

  // The number of links from a node to an NPU; -1 where there is no way.
  int distance(std::uint32_t node, std::uint32_t npu) { return table(npu).distance[node]; }

  // Two NPUs without a way from the first to the second, and what is the longest of all shortest ways.
  struct Check {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> unreachable;
    int longest = 0;
  };
  static Check check(const Plan& plan);

 private:
  // Ways to one NPU: of node n those from place begin[n] to begin[n + 1].
  struct Table {
    std::vector<int> distance;
    std::vector<std::uint32_t> begin, links;
  };

  const Table& table(std::uint32_t npu);
  std::vector<int> distances(std::uint32_t npu) const;

  const Plan& plan_;
  std::vector<std::vector<std::uint32_t>> leaving_, entering_;  // links of each node
  std::vector<std::unique_ptr<Table>> tables_;                  // of each NPU
};

}  // namespace astra::tcp
