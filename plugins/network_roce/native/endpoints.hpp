// The ends of messages: a receiver answers packets of data, a sender takes the answers.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "congestion.hpp"
#include "events.hpp"
#include "flows.hpp"
#include "load_balancing.hpp"
#include "monitor.hpp"
#include "nics.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"

namespace astra::roce {

// A message has arrived, or its sender knows that it has.
struct Delivery {
  std::uint64_t number;
  bool sent;
};

class Endpoints {
 public:
  Endpoints(const Settings& settings, Events& events, Packets& packets, Flows& flows, Nics& nics, PathChoices& next_hops,
            Congestion& congestion, Monitor& monitor, Random& random)
      : settings_(settings),
        events_(events),
        packets_(packets),
        flows_(flows),
        nics_(nics),
        path_choices_(next_hops),
        congestion_(congestion),
        monitor_(monitor),
        random_(random) {}

  // A packet has come to an NPU.
  void take(PacketId id) { packets_[id].kind == Kind::data ? receive(id) : answer(id); }
  static constexpr std::uint32_t kMostTimeouts = 1000;  // of a message in a row
  // A message has waited for an acknowledgement as long as it may. Returns false where that has happened too often.
  bool timeout(FlowId flow);

  // Events of messages since this was emptied.
  std::vector<Delivery> delivered;

 private:
  static constexpr std::uint32_t kMostDoublings = 6;

  enum class Answer : std::uint8_t { nothing, ack, nack };

  void receive(PacketId id);
  void answer(PacketId id);
  // A receiver's reply to a packet, in order or in any order.
  Answer in_order(Flow& flow, const Packet& packet);
  Answer in_any_order(FlowId id, const Packet& packet);
  bool acknowledges(const Flow& flow) const;
  // Bytes of a message are lost: it goes back to the first that is not acknowledged. With slow restart half of the bytes in flight may be
  // in flight from now on, or after a timeout one packet.
  void go_back(Flow& flow, bool timed_out);
  // So many bytes more are acknowledged: the window after a loss grows, first by them, then by a packet in each window.
  void grow(Flow& flow, std::int64_t bytes) const;
  // The time until the next timeout. Those in a row double, up to 64 times, and are drawn from there to twice that: messages that were lost
  // together are not sent together again.
  Tick patience(const Flow& flow);
  // The receiver has all bytes of the first message, and perhaps of those behind it.
  void note_arrivals(FlowId id);
  void note_arrival(Flow& flow, FlowMessage& message);
  // The first message of a queue pair is acknowledged.
  void complete(const Flow& flow);
  // So are all messages of a queue pair.
  void end(FlowId id);
  void discard(PacketId id);

  const Settings& settings_;
  Events& events_;
  Packets& packets_;
  Flows& flows_;
  Nics& nics_;
  PathChoices& path_choices_;
  Congestion& congestion_;
  Monitor& monitor_;
  Random& random_;
  std::vector<std::set<std::int64_t>> early_;  // of each message: packets that came before their turn, by their first byte
};

}  // namespace astra::roce
