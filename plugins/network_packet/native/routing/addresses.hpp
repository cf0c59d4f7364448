// The destinations of packets: the number of a node or, of a quotient network, one on the whole platform, of which the
// coordinates in collapsed dimensions are offsets from where the packet is.
#pragma once

#include <vector>

#include "base/index.hpp"
#include "network/rules.hpp"
#include "routing/layout.hpp"

namespace astra::packet {

class Addresses {
 public:
  Addresses() = default;
  // `collapsed`: by dimension; empty where none is.
  Addresses(const Layout& layout, const std::vector<bool>& collapsed);

  int count() const { return count_of(node_at_); }
  int position(int address, int d) const { return position_[index(address) * sizes_.size() + index(d)]; }
  const int* positions(int address) const { return &position_[index(address) * sizes_.size()]; }
  // The node of an address without offsets.
  int node_at(int address) const { return at(node_at_, address); }
  // The address beyond a link of a collapsed dimension.
  int beyond(int d, OffsetMap offset_map, int address) const;

 private:
  std::vector<int> sizes_;
  std::vector<int> position_;  // [address * dimensions + dimension]
  std::vector<int> node_at_;   // by address
};

}  // namespace astra::packet
