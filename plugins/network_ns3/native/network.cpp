// SPDX-License-Identifier: GPL-2.0-only
#include "network.hpp"

#include <algorithm>
#include <utility>

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"

namespace astra::tcp {

namespace {

constexpr std::size_t kMessagesNamed = 10;
constexpr std::uint16_t kFirstPort = 1024;  // those below are of services
constexpr std::uint16_t kLastPort = 65535;

std::string described(const Message& message, std::int64_t bytes_there) {
  const std::int64_t size = message.end - message.begin;
  const std::int64_t there = std::clamp<std::int64_t>(bytes_there - message.begin, 0, size);
  return "message " + std::to_string(message.number) + " of " + std::to_string(size) + " bytes from NPU " + std::to_string(message.source) +
         " to NPU " + std::to_string(message.destination) + ": " + std::to_string(there) + " bytes have arrived";
}

}  // namespace

Network::Network(Settings settings, Plan plan, bool counts)
    : settings_(std::move(settings)), plan_(std::move(plan)), counts_(counts), listening_(plan_.npus), next_port_(plan_.npus, kFirstPort) {
  listener_ = {[this](const Message& message) { arrived(message); },
               [this](const Message& message, Connection& connection) { acknowledged(message, connection); },
               [this](const std::string& why) { fail(why); }, [this] { ++figures_.retransmissions; }};
  lease_ = std::make_unique<Lease>(settings_.seed, [this] { figures_ = figures(); });
  // An attribute of an object that ns-3 makes within a socket, which only its default reaches.
  ns3::Config::SetDefault("ns3::TcpCubic::HyStart", ns3::BooleanValue(settings_.hystart));
  topology_ = std::make_unique<Topology>(settings_, plan_, [this] {
    interrupted_ = interrupted_ || interrupts_.raises(ns3::Simulator::Now().GetPicoSeconds());
    if (interrupted_) ns3::Simulator::Stop();
  });
}

Network::~Network() { lease_->end(); }

void Network::inject(std::int64_t time, std::span<const astra_message_v2> messages) {
  require_simulator();
  for (const astra_message_v2& each : messages) {
    schedule(time, {each.number, static_cast<std::uint32_t>(each.source), static_cast<std::uint32_t>(each.destination), each.bytes,
                    each.traffic_class});
  }
}

void Network::schedule(std::int64_t time, const Request& request) {
  if (std::max(request.source, request.destination) >= plan_.npus || request.source == request.destination || request.bytes < 0) {
    throw InvalidMessage("a message of " + std::to_string(request.bytes) + " bytes from NPU " + std::to_string(request.source) +
                         " to NPU " + std::to_string(request.destination) + "; expected two of " + std::to_string(plan_.npus) +
                         " NPUs, and a size of at least 0");
  }
  const std::int64_t now = ns3::Simulator::Now().GetPicoSeconds();
  if (time < now)
    throw InvalidMessage("a message is sent at " + std::to_string(time) + " ps, and ns-3 is at " + std::to_string(now) + " ps");
  ++under_way_;
  ns3::Simulator::ScheduleWithContext(request.source, ns3::PicoSeconds(time - now), [this, request] { submit(request); });
}

bool Network::advance(std::int64_t until) {
  require_simulator();
  delivered_.clear();
  if (under_way_ == 0) return false;
  const std::int64_t now = ns3::Simulator::Now().GetPicoSeconds();
  if (until < now) return false;
  ns3::EventId limit;
  if (until != kNever) limit = ns3::Simulator::Schedule(ns3::PicoSeconds(until - now), [] { ns3::Simulator::Stop(); });
  ns3::Simulator::Run();
  time_ = ns3::Simulator::Now().GetPicoSeconds();
  if (interrupted_) throw Interrupted{};
  if (!failure_.empty()) throw Deadlock(failure_ + open_messages());
  const bool reached = until != kNever && limit.IsExpired();
  if (!reached && until != kNever) limit.Cancel();
  if (!delivered_.empty()) return true;
  if (reached) return false;
  throw Deadlock("nothing moves any more in ns-3, and messages are under way" + open_messages());
}

Figures Network::figures() const {
  Figures result = figures_;
  if (!lease_->holds()) return result;
  result.now = ns3::Simulator::Now().GetPicoSeconds();
  result.events = ns3::Simulator::GetEventCount();
  result.drops = topology_->drops();
  result.marks = topology_->marks();
  result.loads = topology_->loads();
  return result;
}

void Network::require_simulator() const {
  if (lease_->holds()) return;
  throw InvalidMessage(
      "another network ns3 has begun in this process, and ns-3 simulates one at a time; expected one run after the other, or processes");
}

void Network::listen(std::uint32_t npu) {
  ns3::Ptr<ns3::Socket>& socket = listening_[npu];
  if (socket) return;
  socket = make_socket(settings_, topology_->node(npu));
  socket->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), kPort));
  socket->SetAcceptCallback(ns3::MakeNullCallback<bool, ns3::Ptr<ns3::Socket>, const ns3::Address&>(),
                            ns3::Callback<void, ns3::Ptr<ns3::Socket>, const ns3::Address&>(
                                [this](ns3::Ptr<ns3::Socket> created, const ns3::Address& from) { accept(std::move(created), from); }));
  socket->Listen();
}

void Network::submit(const Request& request) {
  try {
    connection(request).send(request.number, request.bytes, ns3::Simulator::Now().GetPicoSeconds());
  } catch (const InvalidMessage& error) {
    fail(error.what());
  }
}

Connection& Network::connection(const Request& request) {
  const std::uint64_t own = settings_.connection_per_message() ? ++figures_.connections : 0;
  std::unique_ptr<Connection>& known = connections_[{request.source, request.destination, request.traffic_class, own}];
  if (known) return *known;
  if (!settings_.connection_per_message()) ++figures_.connections;
  if (next_port_[request.source] == kLastPort) {
    throw InvalidMessage("NPU " + std::to_string(request.source) + " would have more than " + std::to_string(kLastPort - kFirstPort) +
                         " connections, the most that TCP has ports for (connections)");
  }
  const std::uint16_t port = next_port_[request.source]++;
  listen(request.destination);
  known = std::make_unique<Connection>(settings_, *topology_, listener_, request.source, request.destination, port, counts_);
  by_port_[{request.source, port}] = known.get();
  return *known;
}

void Network::accept(ns3::Ptr<ns3::Socket> socket, const ns3::Address& from) {
  const auto sender = ns3::InetSocketAddress::ConvertFrom(from);
  const auto place = by_port_.find({node_of(sender.GetIpv4()), sender.GetPort()});
  if (place == by_port_.end()) return fail("a connection came that no NPU has made");
  place->second->accept(std::move(socket));
  by_port_.erase(place);
}

void Network::arrived(const Message& message) {
  delivered_.push_back({message.number, ASTRA_ARRIVED, 0});
  ns3::Simulator::Stop();
}

void Network::acknowledged(const Message& message, Connection& connection) {
  --under_way_;
  delivered_.push_back({message.number, ASTRA_SENT, 0});
  if (counts_) ended_.push_back(message);
  // The socket is in the middle of it.
  if (settings_.connection_per_message()) ns3::Simulator::ScheduleNow([&connection] { connection.close(); });
  ns3::Simulator::Stop();
}

void Network::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  ns3::Simulator::Stop();
}

// A line for each message that has not arrived, up to a number of them.
std::string Network::open_messages() const {
  std::string text;
  std::size_t count = 0;
  for (const auto& [ends, connection] : connections_) {
    for (const Message& message : connection->open()) {
      if (++count <= kMessagesNamed) text += "\n" + described(message, connection->received());
    }
  }
  if (count > kMessagesNamed) text += "\nand " + std::to_string(count - kMessagesNamed) + " more";
  return text;
}

}  // namespace astra::tcp
