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
#include "settings.hpp"

namespace astra::roce {

// A message has arrived, or its sender knows that it has.
struct Delivery {
  std::uint64_t number;
  bool sent;
};

class Endpoints {
 public:
  Endpoints(const Settings& settings, Events& events, Packets& packets, Flows& flows, Nics& nics, Ways& ways, Congestion& congestion,
            Monitor& monitor)
      : settings_(settings),
        events_(events),
        packets_(packets),
        flows_(flows),
        nics_(nics),
        ways_(ways),
        congestion_(congestion),
        monitor_(monitor) {}

  // A packet has come to an NPU.
  void take(PacketId id) { packets_[id].kind == Kind::data ? receive(id) : answer(id); }
  static constexpr std::uint32_t kMostTimeouts = 1000;  // of a message in a row
  // A message has waited for an acknowledgement as long as it may. Returns false where that has happened too often.
  bool timeout(FlowId flow);

  // What has become of messages since this was emptied.
  std::vector<Delivery> delivered;

 private:
  enum class Answer : std::uint8_t { nothing, ack, nack };

  void receive(PacketId id);
  void answer(PacketId id);
  // What a receiver says to a packet, in order or in any order.
  Answer in_order(Flow& flow, const Packet& packet);
  Answer in_any_order(FlowId id, const Packet& packet);
  bool acknowledges(const Flow& flow) const;
  void complete(FlowId id);
  void discard(PacketId id);

  const Settings& settings_;
  Events& events_;
  Packets& packets_;
  Flows& flows_;
  Nics& nics_;
  Ways& ways_;
  Congestion& congestion_;
  Monitor& monitor_;
  std::vector<std::set<std::int64_t>> early_;  // of each message: packets that came before their turn, by their first byte
};

}  // namespace astra::roce
