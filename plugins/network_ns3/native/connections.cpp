// SPDX-License-Identifier: GPL-2.0-only
#include "connections.hpp"

#include <algorithm>

#include "ns3/boolean.h"
#include "ns3/enum.h"
#include "ns3/inet-socket-address.h"
#include "ns3/nstime.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/uinteger.h"

namespace astra::tcp {

namespace {

constexpr std::uint32_t kKib = 1024;

using SocketCall = ns3::Callback<void, ns3::Ptr<ns3::Socket>>;
using SegmentCall = ns3::Callback<void, ns3::Ptr<const ns3::Packet>, const ns3::TcpHeader&, ns3::Ptr<const ns3::TcpSocketBase>>;
using RetransmissionCall = ns3::Callback<void, ns3::Ptr<const ns3::Packet>, const ns3::TcpHeader&, const ns3::Address&, const ns3::Address&,
                                         ns3::Ptr<const ns3::TcpSocketBase>>;

constexpr std::int64_t kLargestPiece = 1 << 20;

std::string ends_of(std::uint32_t source, std::uint32_t destination) {
  return "from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination);
}

}  // namespace

ns3::Ptr<ns3::Socket> make_socket(const Settings& settings, const ns3::Ptr<ns3::Node>& node) {
  const auto socket = node->GetObject<ns3::TcpL4Protocol>()->CreateSocket(ns3::TypeId::LookupByName(settings.type_name()));
  socket->SetAttribute("SegmentSize", ns3::UintegerValue(settings.segment_bytes));
  socket->SetAttribute("InitialCwnd", ns3::UintegerValue(settings.initial_window));
  socket->SetAttribute("DelAckCount", ns3::UintegerValue(settings.delayed_ack_segments));
  socket->SetAttribute("DelAckTimeout", ns3::TimeValue(ns3::PicoSeconds(settings.picoseconds(settings.delayed_ack_ms))));
  socket->SetAttribute("MinRto", ns3::TimeValue(ns3::PicoSeconds(settings.picoseconds(settings.min_rto_ms))));
  socket->SetAttribute("ConnTimeout", ns3::TimeValue(ns3::PicoSeconds(settings.picoseconds(settings.connect_timeout_ms))));
  socket->SetAttribute("ConnCount", ns3::UintegerValue(settings.connect_retries()));
  socket->SetAttribute("DataRetries", ns3::UintegerValue(settings.retries));
  socket->SetAttribute("SndBufSize", ns3::UintegerValue(kKib * settings.send_buffer_kib));
  socket->SetAttribute("RcvBufSize", ns3::UintegerValue(kKib * settings.receive_buffer_kib));
  socket->SetAttribute("TcpNoDelay", ns3::BooleanValue(true));
  // ns-3 counts time stamps in milliseconds, and would measure round trips in them.
  socket->SetAttribute("Timestamp", ns3::BooleanValue(false));
  return socket;
}

Connection::Connection(const Settings& settings, Topology& topology, const Listener& listener, std::uint32_t source,
                       std::uint32_t destination, std::uint16_t port, bool counts)
    : settings_(settings),
      listener_(listener),
      source_(source),
      destination_(destination),
      sender_(make_socket(settings, topology.node(source))) {
  if (sender_->Bind(ns3::InetSocketAddress(address_of(source), port)) != 0) {
    throw InvalidMessage("NPU " + std::to_string(source) + " has no port " + std::to_string(port) + " left for another connection");
  }
  sender_->SetSendCallback(ns3::Callback<void, ns3::Ptr<ns3::Socket>, std::uint32_t>([this](auto&&...) { fill(); }));
  sender_->SetConnectCallback(SocketCall([](auto&&...) {}), SocketCall([this](auto&&...) { give_up("was never made"); }));
  sender_->SetCloseCallbacks(SocketCall([](auto&&...) {}), SocketCall([this](auto&&...) { give_up("was given up"); }));
  sender_->TraceConnectWithoutContext("HighestRxAck", ns3::Callback<void, ns3::SequenceNumber32, ns3::SequenceNumber32>(
                                                          [this](auto before, auto now) { acknowledge(now - before); }));
  sender_->TraceConnectWithoutContext("Retransmission", RetransmissionCall([this](auto&&...) { listener_.sent_again(); }));
  if (counts) {
    sender_->TraceConnectWithoutContext(
        "Tx", SegmentCall([this](const auto& packet, const auto& header, const auto&) { count_sent(header, packet->GetSize()); }));
    sender_->TraceConnectWithoutContext("Rx", SegmentCall([this](const auto&, const auto& header, const auto&) { count_ack(header); }));
  }
  sender_->Connect(ns3::InetSocketAddress(address_of(destination), kPort));
}

void Connection::send(std::uint64_t number, std::int64_t bytes, std::int64_t time) {
  const std::int64_t begin = messages_.empty() ? end_ : messages_.back().end;
  // A message of no bytes has one, for TCP carries nothing else.
  end_ = begin + std::max<std::int64_t>(bytes, 1);
  messages_.push_back({number, source_, destination_, begin, end_, time});
  fill();
}

void Connection::accept(ns3::Ptr<ns3::Socket> socket) {
  receiver_ = socket;
  socket->SetRecvCallback(SocketCall([this](ns3::Ptr<ns3::Socket> from) { take(from); }));
  socket->SetCloseCallbacks(SocketCall([](ns3::Ptr<ns3::Socket> from) { from->Close(); }), SocketCall([](auto&&...) {}));
}

void Connection::close() {
  closed_ = true;
  sender_->Close();
}

// Hands to the socket as much as it has room for.
void Connection::fill() {
  while (handed_over_ < end_) {
    const std::int64_t piece = std::min<std::int64_t>({end_ - handed_over_, sender_->GetTxAvailable(), kLargestPiece});
    if (piece <= 0) return;
    if (sender_->Send(ns3::Create<ns3::Packet>(static_cast<std::uint32_t>(piece))) <= 0) return;
    handed_over_ += piece;
  }
}

void Connection::take(ns3::Ptr<ns3::Socket> socket) {
  while (const auto packet = socket->Recv()) received_ += packet->GetSize();
  for (; arrived_ < messages_.size() && messages_[arrived_].end <= received_; ++arrived_) {
    messages_[arrived_].received = ns3::Simulator::Now().GetPicoSeconds();
    listener_.arrived(messages_[arrived_]);
  }
}

void Connection::acknowledge(std::int64_t bytes) {
  acknowledged_ += bytes;
  // The first of them was that of the connection itself (SYN).
  while (arrived_ > 0 && messages_.front().end <= acknowledged_ - 1) {
    messages_.front().acknowledged = ns3::Simulator::Now().GetPicoSeconds();
    listener_.acknowledged(messages_.front(), *this);
    messages_.pop_front();
    --arrived_;
  }
}

void Connection::give_up(const char* why) {
  if (closed_ && messages_.empty()) return;
  listener_.failed("the connection " + ends_of(source_, destination_) + " " + why +
                   ": no answer to a segment, also when it was repeated (retries = " + std::to_string(settings_.retries) + ")");
}

void Connection::count_sent(const ns3::TcpHeader& header, std::uint32_t bytes) {
  if (bytes > 0 && !messages_.empty()) ++message_at(header.GetSequenceNumber()).packets;
}

// An acknowledgement counts for the message with the last byte that it acknowledges.
void Connection::count_ack(const ns3::TcpHeader& header) {
  if (messages_.empty() || (header.GetFlags() & ns3::TcpHeader::SYN) != 0) return;
  Message& message = message_at(header.GetAckNumber() - 1);
  ++message.acks;
  if ((header.GetFlags() & ns3::TcpHeader::ECE) != 0) ++message.marked_acks;
}

// The message with a byte, or the first one that is open. Sequence numbers are 32 bits of the number of a byte plus one.
Message& Connection::message_at(ns3::SequenceNumber32 sequence) {
  const auto first = static_cast<std::uint32_t>(messages_.front().begin + 1);
  const std::int64_t place = messages_.front().begin + static_cast<std::int32_t>(sequence.GetValue() - first);
  for (Message& message : messages_) {
    if (place < message.end) return message;
  }
  return messages_.back();
}

}  // namespace astra::tcp
