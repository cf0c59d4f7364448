// Route computation: which output a packet takes at a router, of those that the routing tables allow, and which virtual channels there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "channels.hpp"
#include "index.hpp"
#include "input_buffers.hpp"
#include "neighbour.hpp"
#include "shape.hpp"
#include "snapshot.hpp"

namespace astra::packet {

class RouteComputation {
 public:
  RouteComputation(const Shape& shape, Channels& channels);

  // Where the packet at the front of a virtual channel of router `r` goes on, from what is known in cycle `now`. It came in through channel
  // `in`.
  void set_route(int r, int in, InputVc& vc, Packet& packet, Cycle now);

  void snapshot(Snapshot& snapshot) const;
  // By router, packets that it has sprayed over its outputs; and the same has happened `count` times more since they were `before`.
  const std::vector<std::uint32_t>& sprayed() const { return sprayed_; }
  void repeat(const std::vector<std::uint32_t>& before, std::int64_t count);

 private:
  // The output channel, or the node's own interface.
  int route(int r, int in, Packet& packet, Cycle now);
  // Of all shortest ways the one with most free places.
  int most_free(int r, int destination, Cycle now);

  Neighbour<const Shape> shape_;
  Neighbour<Channels> channels_;
  std::span<const Link> links_;
  std::vector<std::uint64_t> random_;   // by router: state of its random numbers
  std::vector<std::uint32_t> sprayed_;  // by router: packets
};

}  // namespace astra::packet
