// Records in an array that grows without moving them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace astra::analytical {

constexpr std::uint32_t kNone = 0xffffffff;

template <class Record>
class Records {
 public:
  std::uint32_t size() const { return count_; }
  Record& operator[](std::uint32_t id) { return parts_[id >> kBits][id & kMask]; }
  const Record& operator[](std::uint32_t id) const { return parts_[id >> kBits][id & kMask]; }

  // The number of a new record.
  std::uint32_t add() {
    if ((count_ & kMask) == 0) parts_.push_back(std::make_unique<Record[]>(std::size_t{1} << kBits));
    return count_++;
  }

 private:
  static constexpr unsigned kBits = 9;
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << kBits) - 1;

  std::vector<std::unique_ptr<Record[]>> parts_;
  std::uint32_t count_ = 0;
};

}  // namespace astra::analytical
