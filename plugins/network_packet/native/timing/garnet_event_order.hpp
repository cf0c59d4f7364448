// The order in which Garnet handles events of one cycle, if it decides which part of a credit goes first on a narrow link.
//
// Garnet handles the latest request first. So each router remembers the last cycle in which others called it, and how many cycles
// before they asked for that. Nothing of this is kept in networks without credits in parts (see serialized_credits.hpp).
#pragma once

#include <algorithm>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "base/ring_buffer.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"

namespace astra::packet {

class GarnetEventOrder {
 public:
  explicit GarnetEventOrder(const Shape& shape);

  // Credits have parts on a channel at least.
  bool matters() const { return matters_; }
  // Something reaches a router in cycle `cycle` through a channel, on either end of it: it was asked for when that was put on the wires.
  void call(int router, int channel, Cycle cycle);
  // A flit comes into the pipeline of a router, and out of it in cycle `leaves`.
  void enter_pipeline(int router, Cycle leaves);
  // Flits that have been in the pipeline of a router until cycle `now`: it asked for itself when they came.
  void settle(int router, Cycle now);
  // Whether a router has its turn in cycle `now` after the wires of a channel that sends it flits, to whose serializer a credit came in
  // cycle `pushed` last. The router's calls are settled.
  bool wires_come_first(int router, int channel, Cycle pushed, Cycle now) const;

  void snapshot(Snapshot& snapshot, int router);
  void shift(Cycle later);

 private:
  // The last cycle in which a router is called by others, and how many cycles before they asked for that, at most.
  struct Call {
    Cycle at = -3;  // before anything can
    Cycle ahead = 0;
    void ask(Cycle cycle, Cycle before) {
      if (cycle < at) return;
      ahead = cycle == at && ahead > before ? ahead : before;
      at = cycle;
    }
  };

  Neighbour<const Shape> shape_;
  bool matters_ = false;
  std::vector<Call> calls_;               // by router
  std::vector<RingBuffer<Cycle>> ready_;  // by router: when flits in its pipeline can leave it
};

}  // namespace astra::packet
