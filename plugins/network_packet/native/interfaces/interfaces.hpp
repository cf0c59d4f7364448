// Network interfaces: messages become packets, packets get virtual channels, flits leave one a cycle; arriving flits are consumed at once.
//
// An interface has an injection port for each virtual network, or several: a queue of messages, and a channel to and from a router of its
// own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "base/ring_buffer.hpp"
#include "base/statistics.hpp"
#include "interfaces/message_queue.hpp"
#include "interfaces/messages.hpp"
#include "interfaces/packets.hpp"
#include "links/credit_channels.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "routers/input_buffers.hpp"
#include "timing/clock.hpp"

namespace astra::packet {

class Traffic;

class Interfaces {
 public:
  Interfaces(const Shape& shape, Clock& clock, CreditChannels& credits, InputBuffers& inputs, Packets& packets, Messages& messages,
             Statistics& statistics);

  // Puts a message into its source's queue, after cycle `now` has been run. It is made into packets from the next cycle on, or from this
  // one where the interface is `awake` and that matters. `flight`: see Message.
  void send(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake, Cycle flight);
  // Whether an injection port was at work in cycle `now`, which has been run: it sent, received, or had something to send.
  bool awake(int injection_port, Cycle now) const;

  // A cycle of an injection port; and a flit that has arrived in it.
  void run(int injection_port, Cycle now);
  void receive(int injection_port, const Flit& flit, Cycle now);
  // An injection port that has made a packet in this window, or -1: the last one of the last thread (see thread_team.hpp) that has one.
  int packet_maker() const;
  void begin_window() { std::fill(packet_makers_.begin(), packet_makers_.end(), -1); }
  void employ(int threads) { packet_makers_.resize(index(threads), -1); }
  bool makes_packet(int injection_port, Cycle now) const { return at(injection_ports_, injection_port).made_at == now; }
  // Packets that the first message of an injection port has still to make.
  std::int64_t unmade(int injection_port) const;

  // Synthetic traffic makes messages by itself, of one packet that may leave in the cycle in which it is created.
  void attach(Traffic* traffic) { traffic_ = traffic; }
  void create(Cycle created, int injection_port, int destination, int flits);
  int node_of(int injection_port) const { return at(shape_->injection_port, injection_port).node; }
  void wake(int injection_port, Cycle time) { clock_->wake(unit(injection_port), time); }
  // Forgets all messages, or parts of them, that have not been made into packets.
  void drop_messages();

  void snapshot(Snapshot& snapshot) const;
  // By channel, how its virtual channels are counted: on the way out of an interface, from the next in turn on.
  std::vector<VcTurn> vc_rotations() const;
  // The virtual channel of an injection port that is next in turn.
  int pointer(int injection_port) const { return at(injection_ports_, injection_port).pointer; }
  void shift(Cycle later);
  // Everything in the virtual channels of an injection port goes over to those that `turn` counts them as.
  void turn(int injection_port, const VcTurn& turn);

 private:
  struct InjectionPort {
    MessageQueue messages;
    RingBuffer<std::uint32_t> packets;  // made, not yet sent completely, oldest first
    RingBuffer<std::uint16_t> vcs;      // of these packets
    int pointer = 0;                    // where to look for an idle virtual channel next
    std::int32_t sent = 0;              // flits of the first packet
    Cycle called_at = -1;               // when it last got a message, had anything to do, made a packet, sent a flit
    Cycle worked_at = -1;
    Cycle made_at = -1;
    Cycle sent_at = -1;
  };

  int unit(int injection_port) const { return shape_->routers() + injection_port; }
  // One packet of the first message, into an idle virtual channel found round-robin. By the rule `in_turn` its destination is the last
  // then.
  void make_packet(int injection_port, Cycle now);
  // The first virtual channel from `first` on and below `end` that can be given to a packet, or -1.
  int idle_from(int c, int first, int end) const;
  // A flit of the oldest packet, if its virtual channel has a credit.
  void send_flit(int injection_port, Cycle now);

  Neighbour<const Shape> shape_;
  Neighbour<Clock> clock_;
  Neighbour<CreditChannels> credits_;
  Neighbour<InputBuffers> inputs_;
  Neighbour<Packets> packets_;
  Neighbour<Messages> messages_;
  Neighbour<Statistics> statistics_;
  std::vector<InjectionPort> injection_ports_;
  std::vector<int> packet_makers_{-1};  // by thread
  Traffic* traffic_ = nullptr;
};

}  // namespace astra::packet
