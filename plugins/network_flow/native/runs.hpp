// Runs of values side by side in one array, of which those that were given back are used again.
#pragma once

#include <astra_sim/index.hpp>
#include <cstddef>
#include <vector>

namespace astra::flow {

template <class Value>
class Runs {
 public:
  // The place of the first of some values.
  int take(int count) {
    if (count_of(spare_) <= count) spare_.resize(index(count) + 1);
    std::vector<int>& spare = at(spare_, count);
    if (spare.empty()) {
      spare.push_back(count_of(values_));
      values_.resize(values_.size() + index(count));
    }
    const int first = spare.back();
    spare.pop_back();
    return first;
  }
  void give_back(int first, int count) { at(spare_, count).push_back(first); }

  Value& operator[](int place) { return at(values_, place); }
  const Value& operator[](int place) const { return at(values_, place); }
  std::size_t size() const { return values_.size(); }
  const Value* data() const { return values_.data(); }

 private:
  std::vector<Value> values_;
  std::vector<std::vector<int>> spare_;  // by how many
};

}  // namespace astra::flow
