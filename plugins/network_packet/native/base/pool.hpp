// A pool of records by number that grows while others read: a record never moves.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/index.hpp"

namespace astra::packet {

template <class Item>
class Pool {
 public:
  static constexpr int kBits = 28;  // of a number

  Pool() = default;
  Pool(const Pool& other) { *this = other; }
  Pool& operator=(const Pool& other) {
    clear();
    while (size_ < other.size_) (*this)[grow()] = other[size_];
    free_ = other.free_;
    return *this;
  }

  Item& operator[](std::uint32_t number) { return *place(number); }
  const Item& operator[](std::uint32_t number) const { return *place(number); }

  // The number of a free record. Its owner alone takes and gives back.
  std::uint32_t take() {
    if (free_.empty()) return grow();
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(std::uint32_t number) { free_.push_back(number); }

  // Records that there is room for, and those that are taken.
  std::uint32_t size() const { return size_; }
  std::uint32_t taken() const { return size_ - narrow<std::uint32_t>(free_.size()); }
  void clear() {
    size_ = 0;
    free_.clear();
  }

 private:
  static constexpr std::uint32_t kFirst = 256;  // records of the first block; each block has twice as many as the one before

  static int block_of(std::uint32_t number) { return std::bit_width(number / kFirst + 1) - 1; }
  Item* place(std::uint32_t number) const {
    const int block = block_of(number);
    return &blocks_[index(block)][number - kFirst * ((1U << block) - 1)];
  }
  std::uint32_t grow() {
    if (size_ == 1U << kBits) throw std::length_error("too many packets are under way at once");
    auto& block = blocks_[index(block_of(size_))];
    if (!block) block = std::make_unique<Item[]>(std::size_t{kFirst} << block_of(size_));
    return size_++;
  }

  std::array<std::unique_ptr<Item[]>, kBits> blocks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t size_ = 0;
};

}  // namespace astra::packet
