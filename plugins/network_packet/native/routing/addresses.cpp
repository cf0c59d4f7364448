#include "routing/addresses.hpp"

namespace astra::packet {

// Of a quotient network: all numbers of the platform, the first dimension first; nodes are those without offsets, in order.
Addresses::Addresses(const Layout& layout, const std::vector<bool>& collapsed) : sizes_(layout.sizes) {
  if (collapsed.empty()) {
    for (int r : layout.node_router) {
      node_at_.push_back(count_of(node_at_));
      for (int d = 0; d < layout.dimensions(); ++d) position_.push_back(layout.position(r, d));
    }
    return;
  }
  int all = 1;
  for (int size : sizes_) all *= size;
  int node = 0;
  for (int address = 0; address < all; ++address) {
    int rest = address;
    bool at_node = true;
    for (int d = 0; d < count_of(sizes_); ++d) {
      const int coordinate = rest % at(sizes_, d);
      rest /= at(sizes_, d);
      position_.push_back(coordinate);
      at_node = at_node && (coordinate == 0 || !collapsed[index(d)]);
    }
    node_at_.push_back(at_node ? node++ : -1);
  }
}

int Addresses::beyond(int d, OffsetMap offset_map, int address) const {
  int stride = 1;
  for (int before = 0; before < d; ++before) stride *= at(sizes_, before);
  const int size = at(sizes_, d);
  const int offset = position(address, d);
  int left = 0;
  if (offset_map == OffsetMap::right) left = offset == 0 ? size - 1 : offset - 1;
  if (offset_map == OffsetMap::left) left = offset + 1 == size ? 0 : offset + 1;
  return address + (left - offset) * stride;
}

}  // namespace astra::packet
