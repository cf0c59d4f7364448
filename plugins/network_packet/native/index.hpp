// Indexing by number. Channels, routers, lanes and virtual channels are numbered by `int`; containers are indexed by `std::size_t`.
#pragma once

#include <cstddef>

namespace astra::packet {

// A number that is not below 0, as an index or a size.
constexpr std::size_t index(int number) { return static_cast<std::size_t>(number); }

// The element of a container with that number.
template <class Container, class Number>
decltype(auto) at(Container& container, Number number) {
  return container[static_cast<std::size_t>(number)];
}

}  // namespace astra::packet
