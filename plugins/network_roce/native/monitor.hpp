// The counters of a network, and, on request, its records: pauses and messages.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "flows.hpp"
#include "types.hpp"

namespace astra::roce {

// A pause or resume that has come to a node.
struct PauseRecord {
  Tick time;
  NodeId node;
  LinkId port;
  bool pause;
};

// A message that has ended: its figures.
struct FlowRecord {
  std::uint64_t number;
  std::uint64_t first;  // message of its queue pair
  NodeId source;
  NodeId destination;
  std::uint16_t source_port;
  std::int64_t bytes;
  Tick sent;
  Tick started;
  Tick received;
  Tick ended;
  std::uint64_t packets;
  std::uint64_t acks;
  std::uint64_t nacks;
  std::uint64_t marked_acks;

  FlowRecord later(Tick by) const {
    FlowRecord shifted = *this;
    for (Tick* time : {&shifted.sent, &shifted.started, &shifted.received, &shifted.ended}) *time += by;
    return shifted;
  }
};

struct Counters {
  std::uint64_t drops = 0;         // for want of memory
  std::uint64_t losses = 0;        // on links: errors, and links that failed
  std::uint64_t pause_frames = 0;  // pauses and resumes
  std::uint64_t marks = 0;
  std::uint64_t packets = 0;  // of data, sent; those that were sent again count again
  std::uint64_t timeouts = 0;
  std::uint64_t refusals = 0;  // NACKs
  std::uint64_t messages = 0;  // that have ended

  static constexpr std::array<std::uint64_t Counters::*, 8> all();
  // The counts after other figures.
  Counters since(const Counters& before) const;
  void add(const Counters& more);
};

constexpr std::array<std::uint64_t Counters::*, 8> Counters::all() {
  return {&Counters::drops,   &Counters::losses,   &Counters::pause_frames, &Counters::marks,
          &Counters::packets, &Counters::timeouts, &Counters::refusals,     &Counters::messages};
}

inline Counters Counters::since(const Counters& before) const {
  Counters difference = *this;
  for (const auto figure : all()) difference.*figure -= before.*figure;
  return difference;
}

inline void Counters::add(const Counters& more) {
  for (const auto figure : all()) this->*figure += more.*figure;
}

struct Monitor : Counters {
  bool keeps_flows = false;
  bool keeps_pauses = false;
  std::vector<PauseRecord> pauses;
  std::vector<FlowRecord> flows;
};

}  // namespace astra::roce
