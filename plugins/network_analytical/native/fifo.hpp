// The congestion-aware network: astra_sim_network_analytical.congestion, in C++. The same rules, the same order of what happens.
#pragma once

#include <astra_sim/network.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "link_map.hpp"
#include "rounding.hpp"

namespace astra::analytical {

class Fifo {
 public:
  // What a link carried: its number, messages, bytes, picoseconds in which it was busy, and the most messages that waited at a time.
  using Figures = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  Fifo(LinkMap map, Rounding rounding, bool cut_through) : map_(std::move(map)), rounding_(rounding), cut_through_(cut_through) {}

  int inject(std::int64_t time, const astra_message* messages, std::size_t count) {
    if (!run(time)) return -1;
    now_ = time;
    const Moment now{time, order_};
    for (std::size_t i = 0; i < count; ++i) {
      const astra_message& sent = messages[i];
      if (std::min(sent.source, sent.destination) < 0 || std::max(sent.source, sent.destination) >= map_.npus() ||
          sent.source == sent.destination || sent.bytes < 0) {
        error_ = "a message of " + std::to_string(sent.bytes) + " bytes from NPU " + std::to_string(sent.source) + " to NPU " +
                 std::to_string(sent.destination) + " has no route";
        return -1;
      }
      const std::int32_t slot = take_slot();
      Message& message = messages_[static_cast<std::size_t>(slot)];
      message = Message{};
      message.number = sent.number;
      message.bytes = sent.bytes;
      message.npu = sent.source;
      message.destination = sent.destination;
      if (!go_on(slot, now)) return -1;
    }
    return 0;
  }

  int advance(std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
    delivered_.clear();
    while (!events_.empty() && arrived_.empty() && events_.top().at.first <= until) {
      if (!run(events_.top().at.first)) return -1;
    }
    if (!arrived_.empty() && arrived_.front().first <= until) {
      *time = arrived_.front().first;
      while (!arrived_.empty() && arrived_.front().first == *time) {
        delivered_.push_back(arrived_.front().second);
        arrived_.pop_front();
      }
    }
    *numbers = delivered_.data();
    *count = delivered_.size();
    return 0;
  }

  std::int64_t next_event() const {
    if (!arrived_.empty()) return arrived_.front().first;
    return events_.empty() ? ASTRA_NEVER : events_.top().at.first;
  }

  const char* error() const { return error_.c_str(); }
  std::int64_t now() const { return now_; }

  std::vector<Figures> figures() const {
    std::vector<Figures> found;
    for (const Link& link : links_) found.emplace_back(link.number, link.messages, link.bytes, link.busy_ps, link.largest_queue);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  using Moment = std::pair<std::int64_t, std::uint64_t>;  // time, and the order in which what happens then was scheduled

  struct Event {
    Moment at;
    std::int32_t message;  // that reaches a node, or -1
    std::int32_t link;     // that becomes free
    bool operator>(const Event& other) const { return at > other.at; }
  };

  // A message on its way: the NPU it is at or left last, and the dimension and node where it will be next.
  struct Message {
    std::uint64_t number = 0;
    std::int64_t bytes = 0, npu = 0, destination = 0;
    double bandwidth = std::numeric_limits<double>::infinity();  // that of the slowest link so far
    std::int32_t dimension = -1, node = -1, position = -1, link = -1;
    bool fresh = true;  // it has not left the NPU in this dimension yet
  };

  struct Link {
    std::int64_t number = 0;
    Moment free{0, 0};
    std::deque<std::int32_t> waiting;
    std::int64_t messages = 0, bytes = 0, busy_ps = 0, largest_queue = 0;
  };

  std::int32_t take_slot() {
    if (spare_.empty()) {
      messages_.emplace_back();
      return static_cast<std::int32_t>(messages_.size() - 1);
    }
    const std::int32_t slot = spare_.back();
    spare_.pop_back();
    return slot;
  }

  bool run(std::int64_t until) {
    while (!events_.empty() && events_.top().at.first <= until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at.first;
      if (event.message >= 0) {
        if (!go_on(event.message, event.at)) return false;
        continue;
      }
      Link& link = links_[static_cast<std::size_t>(event.link)];
      const std::int32_t first = link.waiting.front();
      link.waiting.pop_front();
      if (!start(first, event.link, now_)) return false;
      if (!link.waiting.empty()) events_.push({link.free, -1, event.link});
    }
    return true;
  }

  bool go_on(std::int32_t slot, const Moment& now) {
    Message& message = messages_[static_cast<std::size_t>(slot)];
    if (message.fresh && !enter(message)) {
      arrived_.emplace_back(now.first, message.number);
      spare_.push_back(slot);
      return true;
    }
    const auto index = static_cast<std::size_t>(message.dimension);
    message.link = map_.dimension(index).next_link(message.node, message.position);
    const std::int32_t number = link_of(map_.number(message.npu, index, message.link));
    Link& link = links_[static_cast<std::size_t>(number)];
    if (link.waiting.empty() && link.free <= now) return start(slot, number, now.first);
    if (link.waiting.empty()) events_.push({link.free, -1, number});
    link.waiting.push_back(slot);
    link.largest_queue = std::max(link.largest_queue, static_cast<std::int64_t>(link.waiting.size()));
    return true;
  }

  bool enter(Message& message) const {
    for (auto index = static_cast<std::size_t>(message.dimension + 1); index < map_.count(); ++index) {
      const std::int32_t node = map_.coordinate(message.npu, index), position = map_.coordinate(message.destination, index);
      if (node != position) {
        message.dimension = static_cast<std::int32_t>(index);
        message.node = node;
        message.position = position;
        return true;
      }
    }
    return false;
  }

  bool start(std::int32_t slot, std::int32_t number, std::int64_t now) {
    Message& message = messages_[static_cast<std::size_t>(slot)];
    Link& link = links_[static_cast<std::size_t>(number)];
    const DimensionLinks& dimension = map_.dimension(static_cast<std::size_t>(message.dimension));
    const double own = dimension.bandwidth_of(message.link);
    message.bandwidth = cut_through_ ? std::min(message.bandwidth, own) : own;
    const double transfer_ns = static_cast<double>(message.bytes) / message.bandwidth;
    const double router_ns = message.node >= dimension.size ? dimension.router_latency_ns : 0;
    double interfaces_ns = message.fresh ? dimension.nic_latency_ns : 0;
    move(message, dimension);
    if (message.fresh) interfaces_ns += dimension.nic_latency_ns;
    // Its head goes on before the rest, unless all of it must have arrived.
    const bool whole = !cut_through_ || message.npu == message.destination;
    const double hop = delay_ps(rounding_, dimension.latency_of(message.link), whole ? transfer_ns : 0, interfaces_ns, router_ns);
    const double transfer = delay_ps(rounding_, 0, transfer_ns);
    if (!(std::max(hop, transfer) < longest_ps) || static_cast<std::int64_t>(hop) > ASTRA_NEVER - 1 - now ||
        static_cast<std::int64_t>(transfer) > ASTRA_NEVER - 1 - now) {
      error_ = "a message of " + std::to_string(message.bytes) + " bytes takes longer than can be simulated";
      return false;
    }
    events_.push({{now + static_cast<std::int64_t>(hop), order_}, slot, -1});
    link.free = {now + static_cast<std::int64_t>(transfer), order_ + 1};
    order_ += 2;
    ++link.messages;
    link.bytes += message.bytes;
    link.busy_ps += static_cast<std::int64_t>(transfer);
    return true;
  }

  void move(Message& message, const DimensionLinks& dimension) const {
    const auto index = static_cast<std::size_t>(message.dimension);
    message.node = dimension.target(message.link);
    message.fresh = message.node == message.position;
    if (message.fresh) message.npu += (message.position - map_.coordinate(message.npu, index)) * map_.stride(index);
  }

  std::int32_t link_of(std::int64_t number) {
    const auto [found, added] = link_numbers_.try_emplace(number, static_cast<std::int32_t>(links_.size()));
    if (added) links_.emplace_back().number = number;
    return found->second;
  }

  LinkMap map_;
  Rounding rounding_;
  bool cut_through_;
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<Message> messages_;
  std::vector<std::int32_t> spare_;
  std::unordered_map<std::int64_t, std::int32_t> link_numbers_;
  std::deque<Link> links_;
  std::deque<std::pair<std::int64_t, std::uint64_t>> arrived_;
  std::vector<std::uint64_t> delivered_;
  std::string error_;
};

}  // namespace astra::analytical
