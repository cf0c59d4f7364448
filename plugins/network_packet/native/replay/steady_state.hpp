// Long messages cost less than their flits: once the network does the same again and again, whole periods are skipped.
//
// A snapshot is the complete state of the simulation, with times relative to now and without the counts of packets that messages still have
// to make. Two equal snapshots mean that the network repeats its work between them, exactly, until a message comes to its last
// packets or a new one is sent. Round-robin pointers that had no choice to make in between have had no effect and need not be equal.
//
// Every part of a domain writes its own snapshot, and knows how to repeat its work.
#pragma once

#include <cstdint>
#include <vector>

#include "network/parts.hpp"

namespace astra::packet {

class SteadyState {
 public:
  // Something came from outside, or a message arrived: earlier snapshots do not count.
  void forget();
  // The injection port at whose packets one looks: `injection_port`, which has made one, if there is none yet.
  int anchored(int injection_port) { return anchor_ < 0 ? anchor_ = injection_port : anchor_; }
  // The same, or -1 if there is none.
  int anchor() const { return anchor_; }
  // Cycle `now` has been run and that injection port has made a packet in it. Returns whether `periods` periods of `period` cycles can be
  // skipped.
  bool look(Parts& parts, Cycle now);
  // The snapshot that is compared, and round-robin pointers.
  static std::vector<std::int64_t> signature(Parts& parts, Cycle now);
  // Skip some of these periods.
  void pass(Parts& parts, std::int64_t count) const;

  Cycle period = 0;
  std::int64_t periods = 0;

 private:
  // Takes a snapshot, or compares with the last one; then returns whether they are equal.
  bool snapshot(Parts& parts, bool compares, Cycle now);
  // Takes a snapshot, and notes counters that go on from period to period.
  void start(Parts& parts, Cycle now);
  // The events since the snapshot can happen again: sets `period` and `periods`.
  bool plan(const Parts& parts, Cycle now);
  bool same_pointers(const Parts& parts) const;
  // Skip periods of an injection port's round-robin pointer: its virtual channels go on as many as in the periods.
  void turn_injection_port(Parts& parts, int injection_port, std::int64_t count) const;

  int anchor_ = -1;         // the injection port at whose packets one looks
  std::int64_t seen_ = 0;   // packets it has made since the snapshot was taken
  std::int64_t wait_ = 0;   // packets until the next look
  std::int64_t reach_ = 4;  // packets for which a snapshot is kept
  std::vector<std::int64_t> snapshot_;
  std::vector<std::int64_t> counters_;
  std::vector<std::int64_t> unmade_;
  std::vector<int> pointers_;
  std::vector<int> injection_port_pointers_;
  std::vector<std::uint32_t> sprayed_;
  Cycle taken_at_ = -1;
  std::uint32_t packets_ = 0;  // under way at the snapshot
};

}  // namespace astra::packet
