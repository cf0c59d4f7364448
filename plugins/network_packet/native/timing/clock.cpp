#include "timing/clock.hpp"

namespace astra::packet {

Clock::Clock(const Shape& shape, int routers_of_tile)
    : dividers_(shape.dividers.of_unit.empty() ? nullptr : shape.dividers.of_unit.data()) {
  std::vector<std::vector<int>> units(index((shape.routers() + routers_of_tile - 1) / routers_of_tile));
  std::vector<std::vector<int>> channels(units.size());
  auto add = [](std::vector<std::vector<int>>& lists, std::vector<Place>& places, int tile, int number) {
    places.push_back({tile, count_of(at(lists, tile))});
    at(lists, tile).push_back(number);
  };
  for (int r = 0; r < shape.routers(); ++r) add(units, units_, r / routers_of_tile, r);
  for (int l = 0; l < shape.injection_ports(); ++l) {
    const int router = at(shape.node_router, at(shape.injection_port, l).node);
    add(units, units_, router / routers_of_tile, shape.routers() + l);
  }
  for (int c = 0; c < shape.channels(); ++c) add(channels, channels_, tile_of(at(shape.link, c).sink), c);
  for (std::size_t tile = 0; tile < units.size(); ++tile) {
    tiles_.push_back({Calendar(count_of(channels[tile]), shape.horizon), Calendar(count_of(units[tile]), shape.horizon),
                      std::move(channels[tile]), std::move(units[tile])});
  }
}

void Clock::employ(int threads) {
  for (int tile = 0; tile < tiles(); ++tile) at(tiles_, tile).thread = narrow<int>(wide(tile) * threads / tiles());
}

void Clock::shift(Cycle later) {
  for (Tile& tile : tiles_) {
    tile.arrivals.shift(later);
    tile.calendar.shift(later);
    if (tile.next != kNever) tile.next += later;
  }
  now_ += later;
}

// Out of line: only networks with clocks of their own for routers come here.
Cycle Clock::later_edge(int unit, Cycle time) const {
  const Cycle divider = dividers_[unit];
  return (time + divider - 1) / divider * divider;
}

}  // namespace astra::packet
