// MurmurHash3 (Austin Appleby, public domain), 32 bits, of words: the hash by which switches choose among paths of equal cost.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace astra::roce {

template <std::size_t Words>
constexpr std::uint32_t murmur3(const std::array<std::uint32_t, Words>& words, std::uint32_t seed) {
  std::uint32_t hash = seed;
  for (std::uint32_t word : words) {
    word *= 0xcc9e2d51U;
    word = std::rotl(word, 15) * 0x1b873593U;
    hash = std::rotl(hash ^ word, 13) * 5 + 0xe6546b64U;
  }
  hash ^= static_cast<std::uint32_t>(Words * 4);
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bU;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35U;
  return hash ^ (hash >> 16);
}

}  // namespace astra::roce
