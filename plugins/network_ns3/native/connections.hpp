// SPDX-License-Identifier: GPL-2.0-only
// TCP connections, and the messages that follow each other on one of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "ns3/packet.h"
#include "ns3/sequence-number.h"
#include "ns3/socket.h"
#include "ns3/tcp-header.h"
#include "settings.hpp"
#include "topology.hpp"

namespace ns3 {
class TcpSocketBase;
}

namespace astra::tcp {

// The record of a message; times in ps. `begin` and `end` are its bytes on its connection.
struct Message {
  std::uint64_t number = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t started = 0;
  std::int64_t received = -1;
  std::int64_t acknowledged = -1;
  std::uint64_t packets = 0;
  std::uint64_t acks = 0;
  std::uint64_t marked_acks = 0;
};

class Connection;

// The calls of a connection to its network.
struct Listener {
  std::function<void(const Message&)> arrived;
  std::function<void(const Message&, Connection&)> acknowledged;
  std::function<void(const std::string&)> failed;  // in words; messages are lost
  std::function<void()> sent_again;                // a segment
};

// A stream of bytes from one NPU to another. Its socket at the receiver comes with the first packet, by `accept`.
class Connection {
 public:
  // Connects at once. Raises InvalidMessage if the source has no port left.
  Connection(const Settings& settings, Topology& topology, const Listener& listener, std::uint32_t source, std::uint32_t destination,
             std::uint16_t port, bool counts);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // A message goes behind those that are there.
  void send(std::uint64_t number, std::int64_t bytes, std::int64_t time);

  // The receiver's end of the stream.
  void accept(ns3::Ptr<ns3::Socket> socket);

  // No more messages come.
  void close();

  std::uint32_t source() const { return source_; }
  std::uint32_t destination() const { return destination_; }
  // Messages that the sender does not know to have arrived.
  const std::deque<Message>& open() const { return messages_; }
  std::int64_t received() const { return received_; }

 private:
  void fill();
  void take(ns3::Ptr<ns3::Socket> socket);
  void acknowledge(std::int64_t bytes);
  void give_up(const char* why);
  void count_sent(const ns3::TcpHeader& header, std::uint32_t bytes);
  void count_ack(const ns3::TcpHeader& header);
  Message& message_at(ns3::SequenceNumber32 sequence);

  const Settings& settings_;
  const Listener& listener_;
  std::uint32_t source_, destination_;
  ns3::Ptr<ns3::Socket> sender_, receiver_;
  std::deque<Message> messages_;
  std::size_t arrived_ = 0;       // how many of them have
  std::int64_t end_ = 0;          // of the last message
  std::int64_t handed_over_ = 0;  // bytes that the socket has taken
  std::int64_t received_ = 0;
  std::int64_t acknowledged_ = 0;
  bool closed_ = false;
};

// Makes a socket of an NPU with the options of a network.
ns3::Ptr<ns3::Socket> make_socket(const Settings& settings, const ns3::Ptr<ns3::Node>& node);

constexpr std::uint16_t kPort = 9;  // on which all NPUs listen

}  // namespace astra::tcp
