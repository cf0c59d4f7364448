// The complete state of an idle network, as a row of numbers: each of its parts writes its own. Most are 0 and cost no memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace astra::roce {

class Snapshot {
 public:
  void put(std::int64_t value) {
    if (value != 0) {
      values_.push_back(place_);
      values_.push_back(value);
    }
    ++place_;
  }
  void append_to(std::vector<std::int64_t>& row) const {
    row.push_back(static_cast<std::int64_t>(values_.size()));
    row.insert(row.end(), values_.begin(), values_.end());
  }
  std::vector<std::int64_t> take() { return std::move(values_); }

 private:
  std::vector<std::int64_t> values_;  // each after its place
  std::int64_t place_ = 0;
};

}  // namespace astra::roce
