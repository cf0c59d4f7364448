// Which units have to be looked at in which cycle: a ring of bit sets, one for each of the next cycles.
//
// It is no `RadixQueue` of the kernel: nothing is scheduled further ahead than the longest link, and a unit that is woken several times in
// a cycle acts once, in the order of units, which a bit for each unit gives without sorting.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/flit.hpp"
#include "base/index.hpp"

namespace astra::packet {

class Calendar {
 public:
  // `units` are numbered from 0; nothing is scheduled `horizon` cycles or more ahead.
  Calendar(int units, Cycle horizon)
      : words_(index(units + 63) / 64),
        slots_(std::max<std::size_t>(64, std::bit_ceil(index(horizon) + 1))),
        bits_(words_ * slots_),
        occupied_(slots_ / 64) {}

  void add(int unit, Cycle time) {
    const std::size_t slot = slot_of(time);
    set_bit(&bits_[slot * words_], unit);
    occupied_[slot / 64] |= 1ULL << (slot % 64);
  }

  // The first cycle from `from` on for which something is scheduled, or kNever.
  Cycle next(Cycle from) const {
    const std::size_t start = slot_of(from);
    std::size_t word = start / 64;
    std::uint64_t bits = occupied_[word] & (~0ULL << (start % 64));
    for (std::size_t looked = 0; looked <= occupied_.size(); ++looked) {
      if (bits != 0) {
        return from + wide((index(bit_number(word, bits)) - start) & (slots_ - 1));
      }
      word = word + 1 == occupied_.size() ? 0 : word + 1;
      bits = occupied_[word];
    }
    return kNever;
  }

  // Calls visit(unit) for units scheduled for `time`, in order of unit, and removes them.
  template <class Visit>
  [[gnu::always_inline]] void take(Cycle time, Visit visit) {
    const std::size_t slot = slot_of(time);
    std::uint64_t* const bits = &bits_[slot * words_];
    occupied_[slot / 64] &= ~(1ULL << (slot % 64));
    for (std::size_t word = 0; word < words_; ++word) {
      for (std::uint64_t rest = std::exchange(bits[word], 0); rest != 0; rest &= rest - 1) visit(bit_number(word, rest));
    }
  }

  // Moves everything `cycles` later.
  void shift(Cycle cycles) {
    std::rotate(bits_.begin(), bits_.end() - wide(slot_of(cycles) * words_), bits_.end());
    std::fill(occupied_.begin(), occupied_.end(), 0);
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      for (std::size_t word = 0; word < words_; ++word) {
        if (bits_[slot * words_ + word] != 0) occupied_[slot / 64] |= 1ULL << (slot % 64);
      }
    }
  }

 private:
  std::size_t slot_of(Cycle time) const { return index(time) & (slots_ - 1); }

  std::size_t words_;
  std::size_t slots_;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint64_t> occupied_;
};

}  // namespace astra::packet
