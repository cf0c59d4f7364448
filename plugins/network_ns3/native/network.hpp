// SPDX-License-Identifier: GPL-2.0-only
// Messages over TCP in ns-3, which goes on only as far as it is asked to.
#pragma once

#include <astra_sim/network.h>

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "connections.hpp"
#include "settings.hpp"
#include "simulator.hpp"
#include "topology.hpp"

namespace astra::tcp {

struct Request {
  std::uint64_t number = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::int64_t bytes = 0;
  std::int32_t traffic_class = -1;
};

// Figures of a run, which outlive it.
struct Figures {
  std::int64_t now = 0;  // ps
  std::uint64_t events = 0;
  std::uint64_t connections = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t drops = 0;
  std::uint64_t marks = 0;
  std::vector<Load> loads;  // of each link
};

class Network {
 public:
  // Takes ns-3's simulator from whichever network has it. Keeps the figures of messages if they count.
  Network(Settings settings, Plan plan, bool counts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  static constexpr bool kTellsSent = true;

  // Messages are sent at a time (ps). Raises InvalidMessage if one cannot be.
  void inject(std::int64_t time, std::span<const astra_message_v2> messages);

  // Goes on to the next instant at which something is delivered, if that is not after `until`. Returns whether it is.
  // Raises Deadlock if messages are under way that cannot arrive, InvalidMessage if another network has the simulator.
  bool advance(std::int64_t until);

  void watch(Watcher watcher) { interrupts_.watch(std::move(watcher)); }

  const std::vector<astra_delivery>& delivered() const { return delivered_; }
  std::int64_t delivered_at() const { return time_; }
  Figures figures() const;
  const std::vector<Message>& messages() const { return ended_; }

 private:
  // Connections of a pair of NPUs, by traffic class; the last number tells those of single messages apart.
  using Ends = std::tuple<std::uint32_t, std::uint32_t, std::int32_t, std::uint64_t>;

  void require_simulator() const;
  void schedule(std::int64_t time, const Request& request);
  void listen(std::uint32_t npu);
  void submit(const Request& request);
  Connection& connection(const Request& request);
  void accept(ns3::Ptr<ns3::Socket> socket, const ns3::Address& from);
  void arrived(const Message& message);
  void acknowledged(const Message& message, Connection& connection);
  void fail(const std::string& why);
  std::string open_messages() const;

  Settings settings_;
  Plan plan_;
  bool counts_;
  Interruptible<1U << 10> interrupts_;
  bool interrupted_ = false;
  Listener listener_;
  std::unique_ptr<Lease> lease_;
  std::unique_ptr<Topology> topology_;
  std::vector<ns3::Ptr<ns3::Socket>> listening_;  // of each NPU with connections to it
  std::vector<std::uint16_t> next_port_;          // of each NPU
  std::map<Ends, std::unique_ptr<Connection>> connections_;
  std::map<std::pair<std::uint32_t, std::uint16_t>, Connection*> by_port_;  // source and its port, until they are accepted
  std::vector<astra_delivery> delivered_;
  std::int64_t time_ = 0;
  std::uint64_t under_way_ = 0;
  std::string failure_;
  std::vector<Message> ended_;
  Figures figures_;
};

}  // namespace astra::tcp
