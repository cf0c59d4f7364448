#include "quotient/automorphisms.hpp"

#include <algorithm>

namespace astra::packet {

Automorphisms::Automorphisms(std::vector<int> sizes, const std::vector<bool>& collapsed, std::vector<bool> exclusive_or_too)
    : sizes_(std::move(sizes)), collapsed_(collapsed), exclusive_or_too_(std::move(exclusive_or_too)), exclusive_or_(sizes_.size()) {
  int all = 1;
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    strides_.push_back(all);
    all *= sizes_[d];
    if (collapsed_[d]) count_ *= sizes_[d];
  }
  npu_.resize(index(all));
  for (int npu = 0; npu < all; ++npu) {
    int node = 0;
    int place = 0;
    int nodes = 1;
    int places = 1;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      const int coordinate = npu / strides_[d] % sizes_[d];
      coordinate_.push_back(coordinate);
      int& number = collapsed_[d] ? place : node;
      int& numbers = collapsed_[d] ? places : nodes;
      number += coordinate * numbers;
      numbers *= sizes_[d];
    }
    node_.push_back(node);
    place_.push_back(place);
    npu_[index(node) * index(count_) + index(place)] = npu;
  }
}

Automorphisms Automorphisms::along(int d) const {
  std::vector<bool> only(sizes_.size());
  only[index(d)] = true;
  return Automorphisms(sizes_, only, exclusive_or_too_);
}

int Automorphisms::address(int source, int destination) const {
  const int* const from = coordinates(source);
  const int* const to = coordinates(destination);
  int result = 0;
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    int coordinate = to[d];
    if (collapsed_[d]) coordinate = exclusive_or_[d] ? to[d] ^ from[d] : to[d] - from[d];
    result += (coordinate < 0 ? coordinate + sizes_[d] : coordinate) * strides_[d];
  }
  return result;
}

int Automorphisms::destination(int source, int address) const {
  const int* const from = coordinates(source);
  const int* const by = coordinates(address);
  int result = 0;
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    int coordinate = by[d];
    if (collapsed_[d]) coordinate = exclusive_or_[d] ? by[d] ^ from[d] : by[d] + from[d];
    result += (coordinate >= sizes_[d] ? coordinate - sizes_[d] : coordinate) * strides_[d];
  }
  return result;
}

bool Automorphisms::is_common(int address) const {
  const int* const by = coordinates(address);
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    if (collapsed_[d] && exclusive_or_too_[d] && by[d] != 0 && 2 * by[d] != sizes_[d]) return false;
  }
  return true;
}

bool Automorphisms::use_exclusive_or() {
  exclusive_or_ = exclusive_or_too_;
  return std::find(exclusive_or_.begin(), exclusive_or_.end(), true) != exclusive_or_.end();
}

}  // namespace astra::packet
