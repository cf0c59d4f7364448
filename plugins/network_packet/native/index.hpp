// Indexing by number. Channels, routers, lanes and virtual channels are numbered by `int`; containers are indexed by `std::size_t`.
#pragma once

#include <cstddef>

namespace astra::packet {

// The element of a container with that number.
template <class Container, class Number>
decltype(auto) at(Container& container, Number number) {
  return container[static_cast<std::size_t>(number)];
}

}  // namespace astra::packet
