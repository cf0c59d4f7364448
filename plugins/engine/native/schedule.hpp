// Schedules as the engine runs them: the sends and receives of each rank of a group, and their dependencies.
//
// They are those of astra_sim/schedule.py. A rank names others by peers, which are the same for all ranks, so that one program does for
// all. Which receive a message meets is in the action that sends it.
#pragma once

#include <cstdint>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

enum class PeerKind : std::uint8_t { none, shift, exclusive_or, rank };

struct Peer {
  PeerKind kind = PeerKind::none;
  std::uint32_t value = 0;

  explicit operator bool() const { return kind != PeerKind::none; }

  // The rank meant, seen from `rank` in a group of `ranks`; shifts are modulo the group's size.
  std::uint32_t of(std::uint32_t rank, std::uint32_t ranks) const {
    switch (kind) {
      case PeerKind::shift: {
        const std::uint32_t sum = rank + value;
        return sum >= ranks ? sum - ranks : sum;
      }
      case PeerKind::exclusive_or:
        return rank ^ value;
      default:
        return value;
    }
  }
};

constexpr Time kUnknown = -1;  // a delay that depends on the rank: ask the network

// A step of a rank: when to take it, its sends, and its receives.
struct Action {
  std::int32_t after;           // tokens
  std::int32_t after_arrivals;  // messages
  Peer to;
  ReceiptId receipt;  // the receive that the message meets at its destination
  Peer from;
  ReceiptId own_receipt;  // the rank's own receive
  std::int64_t bytes;
  Time delay;          // of the message where it is the same from every rank, or kUnknown
  Time request_delay;  // the same for the request of a receive
};

// How a token travels over a shared bus.
struct BusTransfer {
  std::int64_t bytes;
  bool to_npu;
  bool returned;
};

// The steps of a rank. It has finished when it has all its tokens: its starts, and one for each receive.
struct LoweredProgram {
  std::vector<Action> actions;
  std::vector<Time> after_ps;              // for each receive the time after its endpoint is done: memory and computing; -1: none
  std::vector<bool> reduced;               // for each receive whether its data is added to local data; only if there is a bus
  std::vector<BusTransfer> bus_transfers;  // of each token; only where there is a bus
  std::int32_t starts = 0;
  std::int32_t tokens = 0;
  bool in_turn = false;  // after_ps and reduced are for the messages in the order in which they come
};

// The programs of the ranks of a group: one for all, one for each, or (`program_of`) for each rank the place of its own.
struct RankPrograms {
  std::vector<LoweredProgram> programs;
  std::vector<std::uint32_t> program_of;

  // Of how many ranks they are: of 1 where all share a program.
  std::uint32_t ranks() const { return program_of.empty() ? next_id(programs) : next_id(program_of); }
  // The place of the program of a rank.
  std::uint32_t place_of(std::uint32_t rank) const {
    if (!program_of.empty()) return program_of[rank];
    return programs.size() == 1 ? 0 : rank;
  }
  const LoweredProgram& of(std::uint32_t rank) const { return programs[place_of(rank)]; }
};

}  // namespace astra::engine
