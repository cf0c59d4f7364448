// Network interfaces of NPUs: each sends acknowledgements and the packets of its queue pairs, in turn, as windows and rates allow.
//
// An interface is the port of a link that leaves an NPU. A queue pair is a message. Where none may send, the interface sleeps until the
// next one may.
#pragma once

#include <cstdint>
#include <vector>

#include "events.hpp"
#include "flows.hpp"
#include "packets.hpp"
#include "queue_pairs.hpp"
#include "settings.hpp"
#include "snapshot.hpp"
#include "types.hpp"
#include "wires.hpp"

namespace astra::roce {

class Nics {
 public:
  Nics(const Settings& settings, Events& events, Packets& packets, Flows& flows, Wires& wires, std::size_t links)
      : settings_(settings), events_(events), packets_(packets), flows_(flows), wires_(wires), nics_(links) {}

  // A message begins: its queue pair is served from now on.
  void add(FlowId flow);
  void acknowledge(LinkId nic, PacketId id);
  void pause(LinkId nic, std::uint32_t queue) { nics_[nic].paused |= static_cast<std::uint8_t>(1U << queue); }
  void resume(LinkId nic, std::uint32_t queue) {
    nics_[nic].paused &= static_cast<std::uint8_t>(~(1U << queue));
    serve(nic);
  }
  bool is_paused(LinkId nic, std::uint32_t queue) const { return (nics_[nic].paused >> queue & 1) != 0; }

  // Send what may be sent, if the port is free.
  void serve(LinkId nic);
  void woken(LinkId nic);
  // What a message may send has changed: acknowledgements have come, its window or its rate are others.
  void update(FlowId flow);
  // The rate of a message changes, and with it the time of its next packet.
  void change_rate(FlowId flow, std::int64_t rate);
  // Move the queue pairs and acknowledgements of an interface whose link has failed to others.
  void fail(LinkId nic, std::vector<FlowId>& pairs, std::vector<PacketId>& acks);

  std::uint64_t sleeping() const { return sleeping_; }  // interfaces that will wake
  // When no message is under way: those that have ended may still be in the list.
  void snapshot(LinkId link, Snapshot& snapshot) const {
    const Nic& nic = nics_[link];
    snapshot.put(static_cast<std::int64_t>(nic.pairs.count()));
    snapshot.put(nic.last);
    snapshot.put(nic.paused);
  }
  bool has_work(LinkId nic) const { return !nics_[nic].acks.empty() || !nics_[nic].pairs.empty(); }

 private:
  struct Nic {
    Fifo acks{};
    QueuePairs pairs{};
    std::uint32_t last = 0;  // the place of the pair that was served last
    Tick wake_at = kNever;
    std::uint64_t wake_order = 0;
    std::uint8_t paused = 0;
  };
  static constexpr std::uint32_t kAckQueue = 3;

  QueuePairs::State state_of(const Flow& flow) const;
  // Whether the window of a message has room.
  bool has_room(const Flow& flow) const;
  // The place of the next pair that may send; kNone where there is none. Pairs that have finished leave the list.
  std::uint32_t choose(Nic& nic);
  void sleep(LinkId nic);
  void wake_at(LinkId nic, Tick time);
  PacketId packet_of(FlowId flow);

  const Settings& settings_;
  Events& events_;
  Packets& packets_;
  Flows& flows_;
  Wires& wires_;
  std::vector<Nic> nics_;  // by link; those of links that leave switches stay empty
  std::uint64_t sleeping_ = 0;
};

}  // namespace astra::roce
