// Synthetic traffic: every node makes packets at random, and their latency is measured.
#pragma once

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/flit.hpp"
#include "timing/calendar.hpp"

namespace astra::packet {

class Domain;
class Interfaces;
class Shape;

// By source, the destinations of its packets: one, or several of which one is drawn. `always` is the share of packets that go to the first
// (hot spot) before one is drawn.
struct TrafficOptions {
  int packet_flits;
  Cycle warm_up;
  Cycle period;
  int periods;
  Cycle drain_limit;
  std::uint64_t seed;
  double hot_share;  // of packets that are drawn
  int hot_node;

  double rate;              // flits per node and cycle
  std::vector<int> target;  // by source: destination, -1: drawn from all nodes
};

struct PeriodFigures {
  std::int64_t packets = 0;
  double latency = 0;  // sums, in cycles
  double in_network = 0;
  double squared = 0;
  std::int64_t accepted_flits = 0;
  std::int64_t offered_flits = 0;
};

class Traffic {
 public:
  // A node's rate is divided among its injection ports.
  Traffic(TrafficOptions options, const Shape& shape);

  // An injection port is awake: it will be again when its next packet is made, or before.
  void look(Interfaces& interfaces, int injection_port, Cycle now);
  // A thread (see thread_team.hpp) has received a packet.
  void received(int thread, const Message& message, const Packet& packet, Cycle now);
  // Runs warm-up, measured periods, and until all measured packets have arrived or the limit is reached; tells the watcher cycles.
  void run(Domain& domain, Watcher watcher);
  // Lets the packets in the network arrive, without new ones. If some of them cannot, reports the wait cycle.
  std::vector<std::string> deadlock(Domain domain) const;

  // Figures of packets that have been received.
  struct Tally {
    std::vector<PeriodFigures> periods;
    std::int64_t measured = 0;  // packets that were made in measured periods
    std::int64_t hops = 0;
    std::int64_t smallest = 0;
    std::int64_t largest = 0;

    void add(const Tally& other);
  };

  Tally figures;  // after `run`
  bool drained = false;
  Cycle cycles = 0;

 private:
  std::uint64_t random();
  double uniform();
  // A number from 0 on, all with the same probability.
  int draw(int numbers);
  Cycle gap(int injection_port);
  // Makes the packets of all injection ports up to a cycle, in order of time and injection port, as they draw from the same random numbers.
  void create(Interfaces& interfaces, Cycle until);
  int destination(int source);
  int period_of(Cycle time) const;
  // Measured packets that have not arrived.
  std::int64_t pending() const;

  TrafficOptions options_;
  std::vector<Cycle> next_;            // by injection port: when it makes its next packet,
  std::vector<Cycle> latest_;          // and when it has made, or will have made, its latest
  Calendar calendar_;                  // of injection ports whose next packet may be due
  Cycle created_ = -1;                 // all packets up to this cycle have been made
  std::int64_t measured_ = 0;          // packets that have been made in measured periods
  std::vector<std::int64_t> offered_;  // by measured period: flits
  std::vector<Tally> tallies_;         // by thread
  std::uint64_t state_[4];
  std::vector<double> log_idle_;  // by injection port: logarithm of the probability that it makes no packet in a cycle
};

}  // namespace astra::packet
