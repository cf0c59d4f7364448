// The automorphisms of a platform along some of its dimensions, which are collapsed: NPUs that they take to one another do the same.
//
// An automorphism adds a distance to the coordinate of every NPU in a collapsed dimension, modulo its size, or combines them by exclusive
// or. Of the NPUs that automorphisms take to one another, those without coordinates in collapsed dimensions are the nodes of a quotient
// network; which automorphism leads from there to an NPU is its place. A message goes to an address: the number on the whole platform that
// has the coordinates of its destination or, in collapsed dimensions, their distance from those of its source.
#pragma once

#include <utility>
#include <vector>

#include "base/index.hpp"

namespace astra::packet {

class Automorphisms {
 public:
  // By dimension, the first one first: its size, whether it is collapsed, and whether exclusive or may do for it as well.
  Automorphisms(std::vector<int> sizes, const std::vector<bool>& collapsed, std::vector<bool> exclusive_or_too);

  const std::vector<int>& sizes() const { return sizes_; }
  const std::vector<bool>& collapsed() const { return collapsed_; }
  int npus() const { return count_of(node_); }
  int nodes() const { return npus() / count_; }
  // How many automorphisms there are.
  int count() const { return count_; }
  int node(int npu) const { return at(node_, npu); }
  int place(int npu) const { return at(place_, npu); }
  int npu(int node, int place) const { return npu_[index(node) * index(count_) + index(place)]; }
  int address(int source, int destination) const;
  int destination(int source, int address) const;
  // Whether an address is the same by both kinds of automorphisms: those of messages so far leave open which of them all NPUs follow.
  bool is_common(int address) const;
  // Goes over from distances to exclusive or where that may be. Returns whether it may anywhere.
  bool use_exclusive_or();
  // Those along one of the dimensions alone, by distance.
  Automorphisms along(int d) const;
  // By dimension, whether it goes by exclusive or.
  const std::vector<bool>& exclusive_or() const { return exclusive_or_; }

 private:
  const int* coordinates(int npu) const { return &coordinate_[index(npu) * sizes_.size()]; }

  std::vector<int> sizes_;
  std::vector<int> strides_;
  std::vector<bool> collapsed_;
  std::vector<bool> exclusive_or_too_;
  std::vector<bool> exclusive_or_;
  int count_ = 1;
  std::vector<int> coordinate_;  // [NPU * dimensions + dimension]
  std::vector<int> node_;        // by NPU
  std::vector<int> place_;
  std::vector<int> npu_;  // [node * automorphisms + place]
};

}  // namespace astra::packet
