// The clock of a domain: which cycle it is, which units act in which later one, and when flits on links arrive.
//
// Units are routers and, after them, the injection ports of network interfaces. Those with slower clocks act in every n-th cycle only
// (their divider): whatever is scheduled for them waits for the next edge of their clock.
//
// Units are in tiles, each with a calendar of its own, so that a tile can run some cycles by itself (see windows.hpp).
#pragma once

#include <algorithm>
#include <vector>

#include "base/flit.hpp"
#include "network/shape.hpp"
#include "timing/calendar.hpp"

namespace astra::packet {

class Clock {
 public:
  // With a number of routers in a tile, each with its injection ports.
  Clock(const Shape& shape, int routers_of_tile);

  // The last cycle that was run, or the one that is.
  Cycle now() const { return now_; }
  // The next one in which anything happens, or kNever.
  Cycle next() const {
    Cycle next = kNever;
    for (const Tile& tile : tiles_) next = std::min(next, tile.next);
    return next;
  }
  int tiles() const { return count_of(tiles_); }
  int tile_of(int unit) const { return at(units_, unit).tile; }
  // Who runs a tile, or a unit: its thread (see thread_team.hpp). Each has some neighbouring tiles.
  int thread(int tile) const { return at(tiles_, tile).thread; }
  int thread_of(int unit) const { return thread(tile_of(unit)); }
  void employ(int threads);
  // How often units have acted so far.
  std::int64_t acts() const {
    std::int64_t acts = 0;
    for (const Tile& tile : tiles_) acts += tile.acts;
    return acts;
  }
  Cycle next_of(int tile) const { return at(tiles_, tile).next; }
  bool units_differ() const { return dividers_ != nullptr; }

  // Cycles of a unit, in cycles of the network; and the other way: which of its own cycles one of the network is.
  Cycle cycles_of(int unit, Cycle own) const {
    if (dividers_ == nullptr) [[likely]]
      return own;
    return own * dividers_[unit];
  }
  Cycle own_cycle(int unit, Cycle time) const {
    if (dividers_ == nullptr) [[likely]]
      return time;
    return time / dividers_[unit];
  }
  // The first cycle from `time` on in which a unit acts.
  Cycle edge(int unit, Cycle time) const {
    if (dividers_ == nullptr) [[likely]]
      return time;
    return later_edge(unit, time);
  }

  // A unit acts in that cycle or, if that is no edge of its clock, in the next that is.
  void wake(int unit, Cycle time) {
    time = edge(unit, time);
    const Place place = at(units_, unit);
    Tile& tile = at(tiles_, place.tile);
    tile.calendar.add(place.number, time);
    if (time < tile.next) tile.next = time;
  }
  // The first flit on a channel arrives then.
  void expect_flit(int channel, Cycle time) {
    const Place place = at(channels_, channel);
    Tile& tile = at(tiles_, place.tile);
    tile.arrivals.add(place.number, time);
    if (time < tile.next) tile.next = time;
  }

  // Runs a cycle of a tile: calls arrive(channel) where flits arrive, then act(unit) for the units that are awake. Inlined, as the closures
  // would otherwise be written to memory in every cycle.
  template <class Arrive, class Act>
  [[gnu::always_inline]] void run(int number, Cycle time, Arrive arrive, Act act) {
    Tile& tile = at(tiles_, number);
    tile.arrivals.take(time, [&](int place) { arrive(at(tile.channels, place)); });
    tile.next = kNever;
    std::int64_t acts = 0;
    tile.calendar.take(time, [&](int place) {
      ++acts;
      act(at(tile.units, place));
    });
    tile.acts += acts;
    if (tile.next != time + 1) tile.next = std::min(tile.calendar.next(time + 1), tile.arrivals.next(time + 1));
  }
  // The cycle that is run, or the one up to which all tiles have.
  void set_now(Cycle time) { now_ = time; }

  // Everything happens some cycles later.
  void shift(Cycle later);

 private:
  // The place of a unit, or the channel to it: a tile, and its number there.
  struct Place {
    int tile = 0;
    int number = 0;
  };
  struct alignas(64) Tile {
    Calendar arrivals;  // of flits
    Calendar calendar;  // of work
    std::vector<int> channels;
    std::vector<int> units;
    Cycle next = kNever;
    int thread = 0;
    std::int64_t acts = 0;
  };

  Cycle later_edge(int unit, Cycle time) const;

  const Cycle* dividers_;  // by unit; nullptr: all act in every cycle
  std::vector<Place> channels_;
  std::vector<Place> units_;
  std::vector<Tile> tiles_;
  Cycle now_ = -1;
};

}  // namespace astra::packet
