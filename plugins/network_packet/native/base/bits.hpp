// Sets of small numbers, one bit each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.hpp"

namespace astra::packet {

inline void set_bit(std::uint64_t* words, int number) { words[number >> 6] |= 1ULL << (number & 63); }
inline void clear_bit(std::uint64_t* words, int number) { words[number >> 6] &= ~(1ULL << (number & 63)); }
inline bool has_bit(const std::uint64_t* words, int number) { return (words[number >> 6] >> (number & 63) & 1) != 0; }

// The lowest number in a set of numbers below 64, which is not empty: std::countr_zero would look whether it is.
inline int lowest(std::uint64_t bits) { return __builtin_ctzll(bits); }
// The same in a word of a set of several.
inline int bit_number(std::size_t word, std::uint64_t bits) { return narrow<int>(word * 64) + lowest(bits); }

// Calls visit(number) for each number of a set, ascending. Numbers added meanwhile may or may not be visited.
template <class Visit>
[[gnu::always_inline]] inline void each_bit(const std::uint64_t* words, std::size_t count, Visit visit) {
  for (std::size_t word = 0; word < count; ++word) {
    for (std::uint64_t rest = words[word]; rest != 0; rest &= rest - 1) visit(bit_number(word, rest));
  }
}

// The first number from `first` on and below `end`, or -1.
inline int next_bit(const std::uint64_t* words, int first, int end) {
  if (first >= end) return -1;
  std::uint64_t bits = words[first >> 6] & (~0ULL << (first & 63));
  for (int word = first >> 6;; bits = words[++word]) {
    if (bits != 0) {
      const int result = word * 64 + lowest(bits);
      return result < end ? result : -1;
    }
    if ((word + 1) * 64 >= end) return -1;
  }
}

// The first number from `turn` on and below `end`; if there is none, the first from `first` on, which is no more than `turn`; or -1.
inline int next_in_turn(const std::uint64_t* words, int turn, int first, int end) {
  if (end > 64) {
    const int chosen = next_bit(words, turn, end);
    return chosen >= 0 ? chosen : next_bit(words, first, end);
  }
  const std::uint64_t bits = *words & (~0ULL >> (64 - end)) & (~0ULL << first);
  const std::uint64_t rest = turn < end ? bits & (~0ULL << turn) : 0;
  return bits == 0 ? -1 : lowest(rest != 0 ? rest : bits);
}

// The first of a set of numbers below 64 from `first` on, going round. The set is not empty.
inline int next_round(std::uint64_t bits, int first) { return (lowest(std::rotr(bits, first)) + first) & 63; }

// A set of small numbers for each of a row of owners.
class BitSets {
 public:
  // A set for one owner more, of numbers below `end`.
  void append(int end) {
    words_.resize(words_.size() + index(end + 63) / 64);
    first_.push_back(words_.size());
  }

  std::uint64_t* operator[](int owner) { return words_.data() + at(first_, owner); }
  const std::uint64_t* operator[](int owner) const { return words_.data() + at(first_, owner); }
  // Words of an owner's set.
  std::size_t width(int owner) const { return at(first_, owner + 1) - at(first_, owner); }
  bool any(int owner) const {
    const std::uint64_t* word = (*this)[owner];
    const std::uint64_t* const end = word + width(owner);
    while (word != end && *word == 0) ++word;  // std::any_of takes four at a time, but most sets are one word
    return word != end;
  }
  // The only number of a set, or -1 if it has none, several, or more words than one.
  int only(int owner) const {
    const std::uint64_t bits = *(*this)[owner];
    const bool one = bits != 0 && (bits & (bits - 1)) == 0;  // std::has_single_bit is a call on processors that may not count bits
    return one && width(owner) == 1 ? lowest(bits) : -1;
  }
  template <class Visit>
  [[gnu::always_inline]] void each(int owner, Visit visit) const {
    each_bit((*this)[owner], width(owner), visit);
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::size_t> first_{0};  // by owner and past the last: its first word
};

}  // namespace astra::packet
