// Network interfaces of NPUs: each sends acknowledgements and the packets of its queue pairs, in turn, as windows and rates allow.
//
// An interface is the port of a link that leaves an NPU. A queue pair is a message, or several of a connection. If none may send, the
// interface sleeps until the next one may.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "events.hpp"
#include "flows.hpp"
#include "large_array.hpp"
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

  // Send the next packet, if there is one and the port is free.
  void serve(LinkId nic);
  void woken(LinkId nic);
  // The sending state of a message has changed: acknowledgements have come, its window or its rate are others.
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
  // For prefetching: interfaces, each of `kBytes`.
  static constexpr std::size_t kBytes = 128;
  const void* data() const { return nics_.data(); }
  bool has_work(LinkId nic) const { return !nics_[nic].acks.empty() || !nics_[nic].pairs.empty(); }

 private:
  struct alignas(64) Nic {
    Fifo acks{};
    std::uint32_t last = 0;  // the place of the pair that was served last
    std::uint8_t paused = 0;
    Tick wake_at = kNever;
    std::uint64_t wake_order = 0;
    QueuePairs pairs{};
  };
  static_assert(sizeof(Nic) == kBytes);
  static constexpr std::uint32_t kAckQueue = 3;

  QueuePairs::State state_of(const Flow& flow) const;
  // Whether the window of a message has room.
  bool has_room(const Flow& flow) const;
  // The place of the next pair that may send; kNone if there is none. Pairs that have finished leave the list.
  std::uint32_t choose(Nic& nic);
  void sleep(LinkId nic);
  void wake_at(LinkId nic, Tick time);
  PacketId packet_of(FlowId flow);

  const Settings& settings_;
  Events& events_;
  Packets& packets_;
  Flows& flows_;
  Wires& wires_;
  LargeArray<Nic> nics_;  // by link; those of links that leave switches stay empty
  std::uint64_t sleeping_ = 0;
};

inline void Nics::update(FlowId id) {
  const Flow& flow = flows_[id];
  nics_[flow.nic].pairs.set(flow.place, state_of(flow));
}

inline void Nics::acknowledge(LinkId nic, PacketId id) {
  nics_[nic].acks.push(packets_, id);
  serve(nic);
}

inline void Nics::serve(LinkId link) {
  Nic& nic = nics_[link];
  if (!wires_.is_free(link)) {
    if (has_work(link)) wires_.tell_when_free(link);
    return;
  }
  if (!wires_.is_up(link)) return;
  if (!nic.acks.empty() && (settings_.acks_first || (nic.paused >> kAckQueue & 1) == 0)) {
    wires_.send(link, nic.acks.pop(packets_));
  } else {
    if (nic.pairs.empty()) return;
    const std::uint32_t place = choose(nic);
    if (place == kNone) return sleep(link);
    nic.last = place;
    const FlowId id = nic.pairs.flow(place);
    wires_.send(link, packet_of(id));
    nic.pairs.set(place, state_of(flows_[id]));
  }
  if (has_work(link)) wires_.tell_when_free(link);
}

inline QueuePairs::State Nics::state_of(const Flow& flow) const {
  return {flow.left() > 0 && has_room(flow), flow.finished(), flow.next_time};
}

inline bool Nics::has_room(const Flow& flow) const {
  if (flow.next_byte - flow.acknowledged >= flow.loss.window) return false;
  if (flow.window == 0) return true;
  std::int64_t window = flow.window;
  if (settings_.variable_window && flow.rate != flow.line_rate) {
    window = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<__int128>(window) * flow.rate / flow.line_rate));
  }
  return flow.next_byte - flow.acknowledged < window;
}

inline std::uint32_t Nics::choose(Nic& nic) {
  QueuePairs& pairs = nic.pairs;
  const std::uint32_t last = nic.last < pairs.count() ? nic.last : nic.last % pairs.count();
  std::uint32_t chosen = pairs.next(last, events_.now(), nic.paused);
  const std::uint32_t finished = pairs.first_finished(last, chosen);
  if (finished == kNone) return chosen;
  const std::uint32_t before = chosen;
  pairs.take_finished(
      finished, [this](FlowId id) { flows_.drop(id); },
      [&](FlowId id, std::uint32_t from, std::uint32_t to) {
        flows_[id].place = to;
        if (from == before) chosen = to;
      });
  return chosen;
}

inline PacketId Nics::packet_of(FlowId id) {
  const PacketId number = packets_.take();
  Packet& packet = packets_[number];
  Flow& flow = flows_[id];
  packet.kind = Kind::data;
  packet.queue = flow.queue;
  packet.flow = id;
  packet.sequence = flow.next_byte;
  FlowMessage& message = flows_.message_of(id, flow.next_byte);
  packet.payload = static_cast<std::uint32_t>(std::min<std::int64_t>(settings_.payload_bytes, message.end - flow.next_byte));
  packet.bytes = packet.payload + settings_.header_bytes + settings_.telemetry_bytes;
  packets_.stamp(number, events_.now());
  flows_.hold(id);
  if (settings_.retransmission > 0 && !flow.timer) {
    flow.timer = true;
    flow.timeout.since = events_.now();
    flows_.hold(id);
    events_.at(events_.now() + settings_.retransmission, EventKind::timeout, id);
  }
  flow.next_byte += packet.payload;
  message.counts.packets += 1;
  const std::int64_t rate = settings_.pacing ? flow.rate : flow.line_rate;
  if (flow.last.bytes != packet.bytes || flow.last.rate != rate) {
    flow.last.bytes = packet.bytes;
    flow.last.rate = rate;
    flow.last.time = transmission(packet.bytes + settings_.gap_bytes, rate, settings_.ticks_per_ns * 1'000'000'000);
  }
  flow.next_time = events_.now() + flow.last.time;
  return number;
}

}  // namespace astra::roce
