// The routers, links and positions between which there are routes: a view of a shape's parts.
#pragma once

#include <vector>

#include "base/index.hpp"
#include "network/rules.hpp"

namespace astra::packet {

struct Layout {
  const Rules& rules;
  const std::vector<RouterSpec>& router;
  std::vector<ChannelSpec>& channel;  // `VcClasses` gives links an order
  const std::vector<int>& sizes;      // of dimensions
  const std::vector<int>& node_router;

  int routers() const { return count_of(router); }
  int dimensions() const { return count_of(sizes); }
  // The position of a router in a dimension, or -1: it is a switch of it.
  int position(int r, int d) const { return at(at(router, r).coordinates, d); }
};

// The entry of a router and a position in a table: the place of a channel among the router's outputs, or one of kHere and kUnreachable, and
// kSeveral.
struct TableEntry {
  static constexpr std::uint16_t kSeveral = 0x8000;  // there are several next channels
  static constexpr std::uint16_t kPlace = 0x7fff;    // a place among the outputs of the router, or one of these
  static constexpr std::uint16_t kHere = 0x7fff;
  static constexpr std::uint16_t kUnreachable = 0x7ffe;

  static std::uint16_t of(std::size_t place, bool several) {
    return narrow<std::uint16_t>(narrow<std::uint16_t>(place) | (several ? kSeveral : 0));
  }
};

}  // namespace astra::packet
