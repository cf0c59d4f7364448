// Indexing by number, and conversions between kinds of numbers.
//
// Channels, routers, injection ports and virtual channels are numbered by `int`; containers are indexed by `std::size_t`; records that
// there are many of keep numbers in as few bits as hold them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace astra::packet {

// A number that is not below 0, as an index or a size.
template <class Number>
constexpr std::size_t index(Number number) {
  return static_cast<std::size_t>(number);
}

// The element of a container with that number.
template <class Container, class Number>
decltype(auto) at(Container& container, Number number) {
  return container[index(number)];
}

// How many elements a container has, as a number of the kind that counts them.
template <class Container>
constexpr int count_of(const Container& container) {
  return static_cast<int>(container.size());
}

// A number that is known to fit into a type of fewer bits.
template <class Narrow, class Number>
constexpr Narrow narrow(Number number) {
  return static_cast<Narrow>(number);
}

// A number of 64 bits with a sign, such as snapshots are made of.
template <class Number>
constexpr std::int64_t wide(Number number) {
  return static_cast<std::int64_t>(number);
}

// A number to calculate with where fractions count.
constexpr double real(std::int64_t number) { return static_cast<double>(number); }

}  // namespace astra::packet
