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

#include "allocation/matcher.hpp"
#include "base/bits.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "interfaces/packets.hpp"
#include "links/credit_channels.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "routers/input_buffers.hpp"
#include "routing/route_computation.hpp"
#include "timing/clock.hpp"

namespace astra::packet {

class StagedRouters {
 public:
  // Without routers where those of the shape are of the other kind.
  StagedRouters(const Shape& shape, Clock& clock, CreditChannels& credits, InputBuffers& inputs, Packets& packets,
                RouteComputation& routes);

  // A cycle of a router, by a thread (see thread_team.hpp); and before it, a flit that has arrived through a channel whose flits are
  // queued.
  void run(int router, Cycle now, int thread);
  void receive(int c, const Flit& flit, Cycle now);

  void employ(int threads) { scratch_.resize(index(threads), Scratch(rules_->input_first())); }

  void snapshot(Snapshot& snapshot) const;
  void shift(Cycle later);

 private:
  // Numbers of ports and virtual channels of a router, and where its sets and pointers are.
  struct Router {
    std::size_t first_word = 0;
    std::size_t words = 0;  // of a set
    std::size_t first_pointer = 0;
    int vcs = 0;      // of all inputs
    int inputs = 0;   // of the switch
    int outputs = 0;  // ports
  };
  // Sets of a router's virtual channels.
  enum Set {
    kAllocating,  // heads that want an output virtual channel,
    kSwitching,   // those that have one, and flits,
    kStarting,    // and heads that will want one, by the router's cycle modulo kStartingSets from which on
    kStartingSets = 4,
    kSets = kStarting + kStartingSets,
  };

  // A thread's notes in a router's cycle.
  struct alignas(64) Scratch {
    explicit Scratch(bool input_first) : heads(input_first), asks(input_first), speculative(input_first) {}

    Matcher heads;
    Matcher asks;              // of the switch,
    Matcher speculative;       // and of its allocator for speculation, if there is one
    std::vector<Ask> matched;  // of the switch, if heads speculate
  };

  // One that runs: `Words` is a constant for most, whose sets are one word. Functions out of line get a copy, so that the rest keeps it in
  // registers.
  template <class Words>
  struct Running {
    int number;
    const Router& router;
    InputVc* vcs;
    std::uint64_t* sets;
    Words words;
    Pointers of_switch;
    Pointers speculative;  // of the switch too
    Pointers of_vcs;       // virtual channels of inputs (local) and of outputs
    int* next_vc;          // by input of the switch: where to start among virtual channels
    Cycle now;
    Scratch& scratch;

    std::uint64_t* set(std::size_t which) const { return sets + which * words; }
    std::size_t word_of(int local) const { return Words() == 1 ? 0 : index(local) / 64; }
    void add(Set which, int local) const { set(which)[word_of(local)] |= 1ULL << (local & 63); }
    void remove(Set which, int local) const { set(which)[word_of(local)] &= ~(1ULL << (local & 63)); }
    template <class Visit>
    [[gnu::always_inline]] void each(Set which, Visit visit) const {
      each_bit(set(which), words, visit);
    }
  };

  // A flit has come into a buffer. Returns when the router has to act for it, or kNever if it does so anyway.
  Cycle accept(int r, const Router& router, int local, InputVc& vc, Cycle now);
  // The head at the front of a virtual channel is routed in cycle `now`; from `since` on it asks for an output virtual channel.
  void begin_packet(int r, const Router& router, int local, InputVc& vc, Cycle now, Cycle since);
  template <class Words>
  void run(int number, const Router& router, Words words, Cycle now, Scratch& scratch);
  // Whether heads begin to ask for a virtual channel in the router's next cycle.
  template <class Words>
  bool starts_in_next_cycle(const Running<Words>& r);
  // Virtual channel allocation. Returns whether a head got one.
  template <class Words>
  bool allocate_vcs(const Running<Words>& r);
  // The only head that wants an output gets the idle virtual channel there that is next in turn. Returns whether there is one.
  template <class Words>
  bool allocate_alone(const Running<Words>& r, int local, InputVc& vc);
  // A head gets a virtual channel. It goes to the switch in the next cycle.
  template <class Words>
  void give_vc(const Running<Words>& r, int local, InputVc& vc, int out_vc);
  // Switch allocation among those that ask, and traversal. Returns whether there is more to do in the next cycle.
  template <class Words>
  bool allocate_switch(const Running<Words>& r);
  // With an allocator for speculation: it grants resources that the other has left.
  template <class Words>
  void allocate_separately(Running<Words> r);
  // One request for each input of the switch and output: of several virtual channels, the next in turn, those that speculate last.
  template <class Words>
  void ask_for_switch(const Running<Words>& r, int local, const InputVc& vc, Matcher& asks);
  int input_of_switch(const InputVc& vc) const;
  // Virtual channels that have one at the output ask for the switch if there is room.
  template <class Words>
  void ask_surely(const Running<Words>& r);
  // Heads that ask for a virtual channel ask for the switch, too, if they might get one with room.
  template <class Words>
  void ask_speculatively(Running<Words> r);
  // A flit goes through the switch, unless its speculation failed. Behind a tail, the next packet in the buffer begins a cycle later.
  template <class Words>
  void cross(const Running<Words>& r, const Ask& ask);
  // Throw UnlikeChoice where heads, or requests of the switch, compete for ports that vary.
  void check_heads(const InputVc* vcs, const std::vector<int>& heads) const;
  void check_asks(const InputVc* vcs, const std::vector<Ask>& asks) const;
  // The next buffer has room for the flit in front or, with cut-through, for the whole packet.
  bool has_room(const InputVc& vc, Cycle now);

  std::uint64_t* starting(int r, const Router& router, Cycle since) {
    return &sets_[router.first_word + (kStarting + (index(clock_->own_cycle(r, since)) & (kStartingSets - 1))) * router.words];
  }

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<CreditChannels> credits_;
  Neighbour<InputBuffers> inputs_;
  Neighbour<Packets> packets_;
  Neighbour<RouteComputation> routes_;
  Neighbour<const Rules> rules_;
  std::span<const Link> links_;
  int width_;  // virtual channels of an output, at most
  std::vector<Router> routers_;
  std::vector<std::uint64_t> sets_;  // [router][Set][word]
  std::vector<int> pointers_;        // [router][those of Running]
  std::vector<Scratch> scratch_;     // by thread
};

}  // namespace astra::packet
