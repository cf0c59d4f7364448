// Indexing by number: things are numbered by `int`, containers are indexed by `std::size_t` (C++20).
#pragma once

#include <cstddef>

namespace astra {

// A number that is not below 0, as an index or a size.
template <class Number>
constexpr std::size_t index(Number number) {
  return static_cast<std::size_t>(number);
}

// The element of a container with that number.
template <class Container, class Number>
constexpr decltype(auto) at(Container& container, Number number) {
  return container[index(number)];
}

// How many elements a container has, as a number of the kind that counts them.
template <class Container>
constexpr int count_of(const Container& container) {
  return static_cast<int>(container.size());
}

// A whole number to calculate with where fractions count.
template <class Number>
constexpr double real(Number number) {
  return static_cast<double>(number);
}

}  // namespace astra
