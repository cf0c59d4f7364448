// Routers that give a head its output virtual channel together with the switch (Garnet).
//
// Switch allocation is separable, input first: every input port picks one of its virtual channels, then every output port one of the
// inputs: those from other routers first, by the rule `transit_first`. By the rule `maximal`,
// inputs that have lost ask again. Of the packets at an input port that may take the same virtual channels of the same output, only the
// oldest that has a flit may ask. Those of another class do not wait for it: it may be waiting for them, beyond a dateline.
#pragma once

#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "interfaces/packets.hpp"
#include "links/credit_channels.hpp"
#include "network/shape.hpp"
#include "routers/input_buffers.hpp"
#include "routing/route_computation.hpp"
#include "timing/clock.hpp"
#include "timing/garnet_event_order.hpp"

namespace astra::packet {

class CombinedRouters {
 public:
  // Without routers where those of the shape are of the other kind.
  CombinedRouters(const Shape& shape, Clock& clock, GarnetEventOrder& calls, CreditChannels& credits, InputBuffers& inputs,
                  Packets& packets, RouteComputation& routes);

  // A cycle of a router, by a thread (see thread_team.hpp); and before it, a flit that has arrived through a channel whose flits are
  // queued.
  void run(int router, Cycle now, int thread);
  void receive(int c, const Flit& flit, Cycle now);

  void employ(int threads) { scratch_.resize(index(threads), scratch_.front()); }

  bool has_flits(int router) const { return busy_.any(router); }

  // Round-robin pointers of all routers.
  std::vector<int> pointers() const;
  // Pointers that had no choice to make after cycle `since` have had no effect. The others are the same as before.
  bool same_choices(const std::vector<int>& before, Cycle since) const;
  // Whether the input arbiter at the end of a channel had a choice after cycle `since`.
  bool chose(int c, Cycle since) const;
  // Pointers go on `count` times as they did since they were `before`: by some steps, round.
  void repeat(const std::vector<int>& before, std::int64_t count);
  // Everything in the virtual channels of a channel has gone over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  // An arbiter that takes turns: where to start, and when it last had a choice, so that this mattered.
  struct Arbiter {
    int pointer = 0;
    Cycle chose_at = -1;
  };
  struct Router {
    std::vector<Arbiter> inputs;   // over virtual channels
    std::vector<Arbiter> outputs;  // by output port, over input ports
  };
  // The flit that an input sends to the switch.
  struct Request {
    InputVc* vc = nullptr;
    int output = 0;
    int distance = 0;
  };
  // The oldest packet of an input that may take these virtual channels of that output.
  struct Candidate {
    int way = 0;
    int first_vc = 0;
    int vc = 0;
    Cycle since = 0;
  };

  // A thread's notes in a router's cycle.
  struct alignas(64) Scratch {
    std::vector<Request> requests;
    std::vector<Candidate> candidates;
    std::vector<int> best;    // by output port: index of a request, or -1
    std::vector<bool> taken;  // by output port: granted in this cycle, after which other inputs have lost
    std::vector<int> losers;  // channels of these,
    std::vector<int> asking;  // and of those that ask again
  };

  // A flit has come into a buffer.
  void accept(InputVc& vc, Cycle now);
  // The virtual channel that the input port at the end of channel `c` sends to the switch, or nullptr: one whose first flit has been in the
  // pipeline since `arrived_by` or earlier. The arbiter's pointer moves on by one when there is one.
  InputVc* choose_vc(int c, Arbiter& arbiter, std::vector<Candidate>& candidates, Cycle arrived_by, Cycle now);
  // The same of the candidates.
  int choose_candidate(int c, Arbiter& arbiter, const std::vector<Candidate>& candidates, Cycle now);
  // Whether there is a virtual channel for the head in front, or a credit for the flit. If not, a credit wakes the router.
  bool may_go(int c, const InputVc& vc, Cycle now);
  // Notes a request of the input at the end of channel `in`.
  void request(const Router& router, Scratch& scratch, int input_ports, int in, InputVc& vc);
  // One of the requests for each output crosses. Returns whether inputs have lost that may ask again, which are noted.
  bool arbitrate(Router& router, Scratch& scratch, int input_ports, Cycle now);
  // They ask for outputs that are left, until none loses.
  void match_losers(Router& router, Scratch& scratch, int input_ports, Cycle arrived_by, Cycle now);
  // Fills `candidates` with those of an input of which the first flit has been in the pipeline since `arrived_by` or earlier.
  void find_candidates(int c, std::vector<Candidate>& candidates, Cycle arrived_by);
  // The first flit of a virtual channel crosses the switch.
  void cross(InputVc& vc, Cycle now);
  // The lowest idle virtual channel that a head may take, or -1.
  int idle_vc(int in, const InputVc& vc) const;
  template <class Routers, class Visit>
  static void each_arbiter(Routers& routers, Visit visit);

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<GarnetEventOrder> calls_;
  Neighbour<CreditChannels> credits_;
  Neighbour<InputBuffers> inputs_;
  Neighbour<Packets> packets_;
  Neighbour<RouteComputation> routes_;
  std::span<const Link> links_;
  std::vector<Router> routers_;
  BitSets occupied_;  // virtual channels that hold flits, by channel
  BitSets busy_;      // inputs that hold flits, by router

  std::vector<Scratch> scratch_;  // by thread
};

}  // namespace astra::packet
