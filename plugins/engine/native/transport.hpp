// Messages on their way: senders hand them over here, and their effects happen when they have arrived.
//
// On a network without contention a message arrives after a delay that its ends and size decide. A network with events takes the messages
// that are sent at one level of an instant together, in order, and is asked for the next delivery before anything else happens. A network
// that has a function table is called through it, others through the host. Some tell of a message, too, when its sender knows that it has
// arrived. If processors handle messages, that of the sender comes before the network, and that of the receiver after it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "astra_sim/network.h"
#include "events.hpp"
#include "host.hpp"
#include "network_table.hpp"
#include "processors.hpp"
#include "under_way.hpp"

namespace astra::engine {

// Messages that a network has not seen, one after another as it takes them. There may be millions at one level of an instant: so they grow
// without a second copy where the allocator can do that.
class Outbox {
 public:
  Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() { std::free(messages_); }

  bool empty() const { return count_ == 0; }
  std::span<const astra_message_v2> messages() const { return {messages_, count_}; }

  // Add astra_message_v2{members...}.
  template <typename... Members>
  void add(const Members&... members) {
    if (count_ == room_) grow();
    ::new (static_cast<void*>(&messages_[count_++])) astra_message_v2{members...};
  }

  // Forget all; the room of a large one is given back.
  void clear() {
    count_ = 0;
    if (room_ <= kKept) return;
    std::free(std::exchange(messages_, nullptr));
    room_ = 0;
  }

 private:
  static constexpr std::size_t kFirst = 256;
  static constexpr std::size_t kKept = std::size_t{1} << 14;

  void grow() {
    const std::size_t room = room_ ? 2 * room_ : kFirst;
    void* larger = std::realloc(messages_, room * sizeof(astra_message_v2));
    if (!larger) throw std::bad_alloc();
    messages_ = static_cast<astra_message_v2*>(larger);
    room_ = room;
  }

  astra_message_v2* messages_ = nullptr;
  std::size_t count_ = 0, room_ = 0;
};

// A message on which processors spend time: the argument of `Transport::transmit`.
struct HandledMessage {
  NpuId source, destination;
  std::int64_t bytes;
  EventPayload arrival;
  std::uint64_t flow;
  std::int32_t queue;
  Time delay;
  std::optional<PointToPointSent> sent;
};

class Transport {
 public:
  Transport(Events& events, Processors& processors, Host& host, NetworkKind network, bool reports_completion)
      : events_(events), processors_(processors), host_(host), network_(network), reports_completion_(reports_completion) {}

  // Call the network through its functions. Raises std::invalid_argument where some are missing.
  void set_table(const NetworkTable& table);

  std::uint64_t messages() const { return messages_; }           // that were sent
  std::size_t undelivered() const { return under_way_.size(); }  // that an event network was given and has not delivered
  // Whether the network reports when senders know that their messages have arrived.
  bool reports_completion() const { return reports_completion_; }
  // The traffic classes of messages in no queue, and of those of each queue (-1: the network chooses). Without this it always does.
  void set_traffic_classes(std::int32_t without_queue, std::vector<std::int32_t> of_queues);
  // A number for messages that belong together.
  std::uint64_t new_flow() { return ++flows_; }
  // Send a message now; `arrival` happens when it is there. It bears the `queue` of the system layer that sends it. `delay` is that of the
  // message if it is known, `flow` the number of those that it belongs to. If the network reports it, `sent` (if any) happens when
  // the sender knows that the message has arrived.
  template <typename What>
  void transmit(NpuId source, NpuId destination, std::int64_t bytes, const What& arrival, std::uint64_t flow, std::int32_t queue = -1,
                Time delay = kUnknown, const PointToPointSent* sent = nullptr) {
    if (processors_.handle_messages()) {
      return prepare({source, destination, bytes, arrival, flow, queue, delay, sent ? std::optional(*sent) : std::nullopt});
    }
    hand_over(source, destination, bytes, arrival, flow, queue, delay);
    if (sent) await_sent(source, destination, bytes, *sent);
  }
  // A message on which processors spend time.
  const HandledMessage& handled(HandledId id) const { return handled_[id]; }
  // The processor of its sender has sent a message.
  void on_departure(HandledId id);
  // A message has reached its destination. Returns its effect now; nothing if its receiver has to spend time on it first.
  std::optional<EventPayload> on_landing(HandledId id);
  // The processor of its destination has received a message. Returns its effect.
  EventPayload on_reception(HandledId id);
  // Hand new messages to the network, and take all that arrive before anything else happens.
  void exchange();

 private:
  // The effect of a message.
  struct Outcome {
    NpuId source;
    CausalKeyId causal_key;
    EventPayload what;
  };
  using Outcomes = UnderWay<Outcome>;
  // The last message of an NPU whose delay was asked for.
  struct LastDelay {
    std::int64_t bytes = -1;
    NpuId destination = 0;
    Time delay = 0;
  };

  // Let the processor of its sender send a message.
  void prepare(const HandledMessage& message);
  // Give a message to the network.
  template <typename What>
  void hand_over(NpuId source, NpuId destination, std::int64_t bytes, const What& arrival, std::uint64_t flow, std::int32_t queue,
                 Time delay) {
    ++messages_;
    if (network_ == NetworkKind::delays) {
      if (delay == kUnknown) delay = delay_of(source, destination, bytes);
      events_.push(events_.after(delay), source, arrival);
      if (Causes* causes = events_.causes()) causes->carry(destination, bytes);
      return;
    }
    outbox_.add(messages_, bytes, flow, narrow<std::int32_t>(source), narrow<std::int32_t>(destination), queue, class_of(queue));
    if (Causes* causes = events_.causes()) causes->send(messages_, destination, bytes);
    const CausalKeyId causal_key = events_.next_causal_key();
    events_.causal_keys().hold(causal_key);
    under_way_.add(messages_, source, causal_key, arrival);
  }
  // The message that was handed over last has a sender that waits: `sent` happens when it knows that the message has arrived.
  void await_sent(NpuId source, NpuId destination, std::int64_t bytes, const EventPayload& sent);
  // The event that was scheduled last is an overhead of such a message.
  void carry(NpuId destination, std::int64_t bytes);
  std::int32_t class_of(std::int32_t queue) const;
  // The effects of these messages happen at a time, in this order: none with an earlier causal key than those before it.
  void deliver(Time time, std::span<const astra_delivery> deliveries);
  void deliver_outcome(Time time, const Outcome& outcome, std::uint64_t cause);
  // How causes know that the sender of a message waits.
  static std::uint64_t sent_cause(std::uint64_t number) { return ~number; }
  // The time of a message on a network without contention. Most NPUs send alike messages to one peer, again and again.
  Time delay_of(NpuId source, NpuId destination, std::int64_t bytes) {
    if (source < last_delays_.size()) {
      const LastDelay& last = last_delays_[source];
      if (last.bytes == bytes && last.destination == destination) return last.delay;
    }
    return find_delay(source, destination, bytes);
  }
  Time find_delay(NpuId source, NpuId destination, std::int64_t bytes);
  // Hand the messages of the outbox to an event network.
  void inject();
  // The next deliveries between two times; none where nothing is delivered. They stay until the next call.
  std::span<const astra_delivery> advance(Time since, Time until, Time& time);

  Events& events_;
  Processors& processors_;
  Host& host_;
  NetworkKind network_;
  bool reports_completion_;
  std::optional<NetworkTable> table_;
  std::uint64_t messages_ = 0;
  std::unordered_map<std::uint64_t, std::vector<std::pair<std::int64_t, Time>>> delays_;  // of each size, by source and destination
  std::vector<LastDelay> last_delays_;                                                    // by source
  Outbox outbox_;                                                                         // that the network has not seen
  Outcomes under_way_;                                                                    // that it has not delivered
  Outcomes unconfirmed_;                                                                  // whose senders wait
  std::vector<astra_delivery> delivered_;                                                 // where the network does not keep them
  std::uint64_t flows_ = 0;
  std::int32_t class_without_queue_ = -1;
  std::vector<std::int32_t> class_of_queue_;
  Pool<HandledMessage> handled_;
  Time quiet_until_ = -1;   // the network has nothing to deliver up to this time
  Time latest_at_ = -1;     // when it delivered last,
  CausalKeyId latest_ = 0;  // and with the latest causal key of these deliveries
};

}  // namespace astra::engine
