// Routers with separate stages: route computation, virtual channel allocation, switch allocation, traversal (BookSim's input-queued one).
//
// A head waits until it is routed, then asks for a virtual channel at its output, and with that for the switch, cycle by cycle, as do the
// flits behind it. With speculation it asks for both at once; if the switch is granted and the virtual channel is not, nothing crosses
// there in this cycle. The virtual channels of a router's inputs are numbered within the router here (`local`), for arbiters by input and
// number.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "bits.hpp"
#include "channels.hpp"
#include "clock.hpp"
#include "index.hpp"
#include "input_buffers.hpp"
#include "matcher.hpp"
#include "messages.hpp"
#include "neighbour.hpp"
#include "route_computation.hpp"
#include "shape.hpp"
#include "snapshot.hpp"

namespace astra::packet {

class StagedRouters {
 public:
  // Without routers where those of the shape are of the other kind.
  StagedRouters(const Shape& shape, Clock& clock, Channels& channels, InputBuffers& inputs, Messages& messages, RouteComputation& routes);

  // A cycle of a router; and a flit that has arrived through a channel.
  void run(int router, Cycle now);
  void receive(int c, const Flit& flit, Cycle now);

  void snapshot(Snapshot& snapshot) const;
  void shift(Cycle later);

 private:
  struct Router {
    std::vector<int> next_vc;  // by input of the switch: where to start among virtual channels
    Pointers vc_pointers;
    Pointers switch_pointers;
    Pointers speculative_pointers;
  };
  using BitSets = std::vector<std::uint64_t>;  // of virtual channels, by router

  // The head at the front of a virtual channel is routed; from `since` on it asks for an output virtual channel.
  void begin_packet(int r, int local, InputVc& vc, Cycle since);
  // Virtual channel allocation. Returns whether a head got one.
  bool allocate_vcs(int r, Cycle now);
  // The same where no two heads want the same output: each gets the idle virtual channel that is next in turn.
  bool allocate_apart(int r);
  // A head gets a virtual channel. It goes to the switch in the next cycle.
  void give_vc(int r, int local, int out_vc);
  // Switch allocation among those that ask, and traversal. Returns whether there is more to do in the next cycle.
  bool allocate_switch(int r, Cycle now);
  // With an allocator for speculation: it grants what the other has left.
  void allocate_separately(int r, Cycle now);
  // All requests of the switch in this cycle.
  void ask_for_switch(int r, Cycle now);
  // A virtual channel that has one at the output asks for the switch if there is room.
  void ask_surely(int r, int local, Cycle now);
  // A head that asks for a virtual channel asks for the switch, too, if it might get one with room.
  void ask_speculatively(int r, int local, Cycle now);
  // One request for each input of the switch and output: of several virtual channels, the next in turn, those that speculate last.
  [[gnu::always_inline]] inline void add_ask(int r, int local, bool speculative, std::vector<Ask>& asks);
  // A flit goes through the switch, unless it has speculated in vain. Behind a tail, the next packet in the buffer begins a cycle later.
  void cross(int r, const Ask& ask, Cycle now);
  // Throw UnlikeChoice where heads, or requests of the switch, compete for ports that vary.
  void check_heads(int r) const;
  void check_asks(int r, const std::vector<Ask>& asks) const;
  // The next buffer has room for the flit in front or, with cut-through, for the whole packet.
  bool has_room(const InputVc& vc) const;

  int local_of(int r, const InputVc& vc) const { return shape_->vc_index(vc.channel, vc.number) - at(shape_->vc_base, r); }
  // Number of a virtual channel for arbiters over inputs.
  int arbiter_input(const InputVc& vc) const { return at(links_, vc.channel).sink_place * width_ + vc.number; }
  std::uint64_t* of_router(BitSets& sets, int r) { return &sets[at(words_, r)]; }
  std::uint64_t* starting(int r, Cycle since) { return of_router(at(starting_, clock_->own_cycle(r, since) & 3), r); }
  template <class Visit>
  void each_of_router(const BitSets& sets, int r, Visit visit) const {
    each_bit(&sets[at(words_, r)], at(words_, r + 1) - at(words_, r), visit);
  }

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<Channels> channels_;
  Neighbour<InputBuffers> inputs_;
  Neighbour<Messages> messages_;
  Neighbour<RouteComputation> routes_;
  std::span<const Link> links_;
  int width_;  // virtual channels of an input or output, at most
  std::vector<Router> routers_;
  std::vector<std::size_t> words_{0};  // by router and past the last: its first word in bit sets
  BitSets allocating_;                 // heads that want an output virtual channel,
  BitSets switching_;                  // those that have one, and flits,
  std::array<BitSets, 4> starting_;    // and heads that will want one, by the router's cycle modulo 4 from which on

  // Scratch of a router's cycle.
  Matcher matcher_;
  std::vector<int> heads_;  // that ask for a virtual channel
  std::vector<Ask> vc_asks_;
  std::vector<Ask> asks_;         // of the switch,
  std::vector<Ask> speculative_;  // and of its allocator for speculation
  std::vector<Ask> matched_;
};

}  // namespace astra::packet
