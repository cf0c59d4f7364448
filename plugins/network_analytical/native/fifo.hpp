// The congestion-aware network: astra_sim_network_analytical.congestion, in C++. The same rules, the same order of events.
#pragma once

#include <astra_sim/network.h>

#include <algorithm>
#include <astra_sim/radix_queue.hpp>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "link_map.hpp"
#include "links.hpp"
#include "owner_waits.hpp"
#include "records.hpp"
#include "rounding.hpp"

namespace astra::analytical {

class Fifo {
 public:
  // The load of a link: its number, messages, bytes, picoseconds in which it was busy, and the most messages that waited at a time.
  using Figures = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  // The load of a dimension's links: bytes, nanoseconds in which they were busy, and the most messages that waited at one.
  using Totals = std::tuple<std::int64_t, double, std::int64_t>;

  // A link's number, and its loads by owner.
  using OwnerFigures = std::tuple<std::int64_t, OwnerWaits::Loads>;

  Fifo(LinkMap map, Rounding rounding, bool cut_through, OwnerWaits owners)
      : map_(std::move(map)), rounding_(rounding), cut_through_(cut_through), owners_(std::move(owners)) {}
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;

  // Raises std::invalid_argument for a message without a route, and for one that takes too long; so does `advance`.
  void inject(std::int64_t time, std::span<const astra_message_v2> messages) {
    require(run(time));
    now_ = time;
    const std::uint64_t order = orders_;
    for (const astra_message_v2& sent : messages) {
      if (std::min(sent.source, sent.destination) < 0 || std::max(sent.source, sent.destination) >= map_.npus() ||
          sent.source == sent.destination || sent.bytes < 0) {
        error_ = "a message of " + std::to_string(sent.bytes) + " bytes from NPU " + std::to_string(sent.source) + " to NPU " +
                 std::to_string(sent.destination) + " has no route";
        require(false);
      }
      const std::uint32_t id = take_message();
      Message& message = messages_[id];
      message = Message{};
      message.number = sent.number;
      message.bytes = sent.bytes;
      message.npu = sent.source;
      message.owner = owners_.owner_of(sent.source);
      message.destination = sent.destination;
      require(go_on(id, order));
    }
  }

  // Goes on to the next instant at which messages arrive. Returns whether that is not after `until`.
  bool advance(std::int64_t until) {
    if (reported_ == instants_.size()) forget_arrived();
    while (instants_.empty() && !events_.empty() && events_.next_time() <= until) {
      require(run(events_.next_time()));
    }
    if (reported_ == instants_.size() || instants_[reported_].time > until) return false;
    ++reported_;
    return true;
  }

  // The result of `advance`.
  std::int64_t delivered_at() const { return instants_[reported_ - 1].time; }
  std::span<const astra_delivery> delivered() const {
    const std::size_t begin = reported_ > 1 ? instants_[reported_ - 2].end : 0;
    return std::span(arrived_).subspan(begin, instants_[reported_ - 1].end - begin);
  }

  std::int64_t now() const { return now_; }

  // Of each dimension. Nanoseconds are added up as Python adds them, by the numbers of the links.
  std::vector<Totals> totals() const {
    std::vector<Totals> result(map_.count());
    links_.in_order([&](std::int64_t number, const Link& link) {
      auto& [bytes, busy_ns, largest_queue] = result[map_.dimension_of(number)];
      bytes += link.bytes;
      busy_ns += static_cast<double>(link.busy_ps) / 1000;
      largest_queue = std::max<std::int64_t>(largest_queue, links_.largest_queue(link));
    });
    return result;
  }

  std::vector<Figures> figures() const {
    std::vector<Figures> result;
    links_.in_order([&](std::int64_t number, const Link& link) {
      result.emplace_back(number, link.messages, link.bytes, link.busy_ps, links_.largest_queue(link));
    });
    return result;
  }

  std::vector<OwnerFigures> owner_figures() {
    std::vector<std::int64_t> numbers;
    links_.in_order([&](std::int64_t number, const Link&) { numbers.push_back(number); });
    std::vector<OwnerFigures> result;
    for (const std::int64_t number : numbers) result.emplace_back(number, owners_.loads(links_.find(number)));
    return result;
  }

 private:
  void require(bool can_go_on) const {
    if (!can_go_on) throw std::invalid_argument(error_);
  }

  // Events of one time come in the order in which they were scheduled: when a transfer begins, the message's arrival first, and then
  // the end of the transfer.
  enum Kind : std::uint64_t { at_node, at_destination, link_free };

  struct Event {
    std::int64_t time;
    std::uint64_t order : 62;
    std::uint64_t kind : 2;
    std::uint64_t what;  // the message's place, the number of one that has arrived, or the link
  };
  static_assert(sizeof(Event) == 24);

  static constexpr std::size_t kKeptArrivals = std::size_t{1} << 14;

  // How long a transfer takes and a hop, of all messages that are as the last one was.
  struct Timing {
    std::int64_t bytes = -1;
    double bandwidth = 0, latency_ns = 0, interfaces_ns = 0, router_ns = 0;
    bool whole = false;
    std::int64_t hop = 0, transfer = 0;
  };

  // A message on its way, until it is on its last link: the NPU it is at or left last, and the dimension and node where it will be next.
  struct Message {
    std::uint64_t number = 0;
    std::int64_t bytes = 0;
    double bandwidth = std::numeric_limits<double>::infinity();  // that of the slowest link so far
    std::int32_t npu = 0, destination = 0, node = -1, position = -1;
    std::uint32_t next = kNone;  // of those that wait for a link, or that are free
    std::int16_t dimension = -1;
    bool fresh = true;       // it has not left the NPU in this dimension yet
    std::uint8_t owner = 0;  // of the NPU that sent it
  };
  static_assert(sizeof(Message) == 48);

  // An instant at which messages have arrived, and where those end in the list of all.
  struct Instant {
    std::int64_t time;
    std::size_t end;
  };

  void arrive(std::uint64_t number) {
    if (instants_.empty() || instants_.back().time != now_) instants_.push_back({now_, 0});
    arrived_.push_back({number, ASTRA_ARRIVED, 0});
    instants_.back().end = arrived_.size();
  }

  // All arrivals were delivered; if there were many, their memory is released.
  void forget_arrived() {
    reported_ = 0;
    instants_.clear();
    if (arrived_.size() > kKeptArrivals) std::vector<astra_delivery>().swap(arrived_);
    arrived_.clear();
  }

  std::uint32_t take_message() {
    if (spare_ == kNone) return messages_.add();
    return std::exchange(spare_, messages_[spare_].next);
  }

  // Let everything happen up to a time. False: an error.
  bool run(std::int64_t until) {
    while (!events_.empty() && events_.next_time() <= until) {
      now_events_.clear();
      events_.take([this](const Event& event) { now_events_.push_back(event); });
      running_ = now_events_.front().time;
      // The end of a transfer is scheduled when the first message waits for it, and may come before events scheduled after it began.
      if (!std::is_sorted(now_events_.begin(), now_events_.end(), before)) std::sort(now_events_.begin(), now_events_.end(), before);
      for (next_event_ = 0; next_event_ < now_events_.size();) {
        const Event event = now_events_[next_event_++];
        if (!dispatch(event)) return false;
      }
      running_ = -1;
    }
    return true;
  }

  static constexpr auto before = [](const Event& a, const Event& b) { return a.order < b.order; };

  bool dispatch(const Event& event) {
    now_ = event.time;
    if (event.kind == at_destination) {
      arrive(event.what);
      return true;
    }
    const auto id = static_cast<std::uint32_t>(event.what);
    if (event.kind == at_node) return go_on(id, event.order);
    LinkQueue& queue = links_.queue_of(links_[id]);
    const std::uint32_t first = queue.first;
    queue.first = messages_[first].next;
    --queue.waiting;
    if (owners_.counts()) owners_.leave(id, messages_[first].owner, transfer_of(messages_[first]));
    if (!start(first, id, link_of(messages_[first]))) return false;
    if (queue.first != kNone) tell_when_free(id);
    return true;
  }

  void schedule(std::int64_t time, std::uint64_t order, Kind kind, std::uint64_t what) {
    if (time != running_) {
      events_.push(time, order, kind, what);
      return;
    }
    const Event event{time, order, kind, what};
    const auto place = std::upper_bound(now_events_.begin() + static_cast<std::ptrdiff_t>(next_event_), now_events_.end(), event, before);
    now_events_.insert(place, event);
  }

  // Schedule the end of a link's transfer: a message waits for it.
  void tell_when_free(std::uint32_t id) { schedule(links_[id].free_at, links_[id].free_order, link_free, id); }

  // A message is at a node, by the event that was scheduled as the `order`-th: it requests its next link.
  bool go_on(std::uint32_t id, std::uint64_t order) {
    Message& message = messages_[id];
    if (message.fresh) enter(message);
    const auto index = static_cast<std::size_t>(message.dimension);
    const std::int32_t place = link_of(message);
    const std::uint32_t number = links_.find(map_.number(message.npu, index, place));
    Link& link = links_[number];
    const bool is_free = link.free_at < now_ || (link.free_at == now_ && link.free_order <= order);
    if (is_free && !links_.is_waited_for(link)) return start(id, number, place);
    message.next = kNone;
    LinkQueue& queue = links_.queue_of(link);
    if (queue.first == kNone) {
      queue.first = queue.last = id;
      tell_when_free(number);
    } else {
      messages_[queue.last].next = id;
      queue.last = id;
    }
    queue.largest = std::max(queue.largest, ++queue.waiting);
    if (owners_.counts()) owners_.wait(number, message.owner, link.free_at - now_, transfer_of(message));
    return true;
  }

  // How long a message at a node will be put on its next link (ps); 0 if that is too long, which `start` finds.
  std::int64_t transfer_of(const Message& message) const {
    const double own = map_.dimension(static_cast<std::size_t>(message.dimension)).bandwidth_of(link_of(message));
    const double bandwidth = cut_through_ ? std::min(message.bandwidth, own) : own;
    const double transfer = delay_ps(rounding_, 0, static_cast<double>(message.bytes) / bandwidth);
    return transfer < longest_ps ? static_cast<std::int64_t>(transfer) : 0;
  }

  std::int32_t link_of(const Message& message) const {
    return map_.dimension(static_cast<std::size_t>(message.dimension)).next_link(message.node, message.position);
  }

  // Let a message at an NPU enter the next dimension in which it differs from its destination; there is one.
  void enter(Message& message) const {
    for (auto index = static_cast<std::size_t>(message.dimension + 1);; ++index) {
      const std::int32_t node = map_.coordinate(message.npu, index), position = map_.coordinate(message.destination, index);
      if (node == position) continue;
      message.dimension = static_cast<std::int16_t>(index);
      message.node = node;
      message.position = position;
      return;
    }
  }

  // Put a message on a link: the one numbered `number`, which is link `place` of its group.
  bool start(std::uint32_t id, std::uint32_t number, std::int32_t place) {
    Message& message = messages_[id];
    Link& link = links_[number];
    const DimensionLinks& dimension = map_.dimension(static_cast<std::size_t>(message.dimension));
    const double own = dimension.bandwidth_of(place);
    message.bandwidth = cut_through_ ? std::min(message.bandwidth, own) : own;
    const double router_ns = message.node >= dimension.size ? dimension.router_latency_ns : 0;
    double interfaces_ns = message.fresh ? dimension.nic_latency_ns : 0;
    move(message, dimension, place);
    if (message.fresh) interfaces_ns += dimension.nic_latency_ns;
    // Its head goes on before the rest, unless all of it must have arrived.
    const bool last = message.npu == message.destination;
    if (!time({message.bytes, message.bandwidth, dimension.latency_of(place), interfaces_ns, router_ns, !cut_through_ || last}))
      return false;
    if (last) {
      schedule(now_ + timing_.hop, orders_, at_destination, message.number);
      message.next = std::exchange(spare_, id);
    } else {
      schedule(now_ + timing_.hop, orders_, at_node, id);
    }
    link.free_at = now_ + timing_.transfer;
    link.free_order = orders_ + 1;
    orders_ += 2;
    ++link.messages;
    link.bytes += message.bytes;
    link.busy_ps += timing_.transfer;
    if (owners_.counts()) owners_.start(number, message.owner, message.bytes, timing_.transfer);
    return true;
  }

  // How long a message takes, in timing_. False: longer than can be simulated.
  bool time(const Timing& asked) {
    if (asked.bytes != timing_.bytes || asked.bandwidth != timing_.bandwidth || asked.latency_ns != timing_.latency_ns ||
        asked.interfaces_ns != timing_.interfaces_ns || asked.router_ns != timing_.router_ns || asked.whole != timing_.whole) {
      const double transfer_ns = static_cast<double>(asked.bytes) / asked.bandwidth;
      const double hop = delay_ps(rounding_, asked.latency_ns, asked.whole ? transfer_ns : 0, asked.interfaces_ns, asked.router_ns);
      const double transfer = delay_ps(rounding_, 0, transfer_ns);
      if (!(std::max(hop, transfer) < longest_ps)) return too_long(asked.bytes);
      timing_ = asked;
      timing_.hop = static_cast<std::int64_t>(hop);
      timing_.transfer = static_cast<std::int64_t>(transfer);
    }
    return std::max(timing_.hop, timing_.transfer) <= ASTRA_NEVER - 1 - now_ || too_long(asked.bytes);
  }

  bool too_long(std::int64_t bytes) {
    error_ = "a message of " + std::to_string(bytes) + " bytes takes longer than can be simulated";
    return false;
  }

  void move(Message& message, const DimensionLinks& dimension, std::int32_t place) const {
    const auto index = static_cast<std::size_t>(message.dimension);
    message.node = dimension.target(place);
    message.fresh = message.node == message.position;
    if (message.fresh) {
      const std::int64_t steps = message.position - map_.coordinate(message.npu, index);
      message.npu += static_cast<std::int32_t>(steps * map_.stride(index));
    }
  }

  LinkMap map_;
  Rounding rounding_;
  bool cut_through_;
  std::int64_t now_ = 0;
  RadixQueue<Event> events_;
  std::uint64_t orders_ = 0;  // of the next thing that is scheduled
  std::vector<Event> now_events_;
  std::size_t next_event_ = 0;  // of those
  std::int64_t running_ = -1;   // the time of those that happen
  Timing timing_;
  Records<Message> messages_;
  std::uint32_t spare_ = kNone;  // the first message that is free
  Links links_;
  OwnerWaits owners_;
  std::vector<astra_delivery> arrived_;  // at these instants
  std::vector<Instant> instants_;
  std::size_t reported_ = 0;  // of the instants
  std::string error_;
};

}  // namespace astra::analytical
