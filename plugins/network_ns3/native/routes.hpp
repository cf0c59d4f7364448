// SPDX-License-Identifier: GPL-2.0-only
// The routes of the fabric to each NPU. They are found for an NPU when the first packet goes to it.
#pragma once

#include <astra_sim/fabric/routes.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "settings.hpp"

namespace astra::tcp {

class Routes {
 public:
  explicit Routes(const Plan& plan);
  Routes(const Routes&) = delete;  // its parts refer to each other

  // The links with which paths of least cost from a node to an NPU begin; none where there is no path.
  std::span<const int> next_links(std::uint32_t node, std::uint32_t npu);

  // Two NPUs without a path from the first to the second, and how many links the longest of all paths of least cost has.
  struct Check {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> unreachable;
    int longest = 0;
  };
  static Check check(const Plan& plan);

 private:
  // Of each node the most links of paths to an NPU; kUnreachable: there is none.
  std::vector<int> most_links(int npu);

  fabric::Graph graph_;
  fabric::Routes routes_;
  std::vector<std::optional<fabric::NextLinks>> known_;  // of each NPU
};

}  // namespace astra::tcp
