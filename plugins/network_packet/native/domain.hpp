// The moving part of a network: buffers, credits, arbiters, and the rules by which they change from cycle to cycle.
//
// Units (routers and lanes of network interfaces) speak through channels only, and what one puts on a channel another can take in a later
// cycle at the earliest. So the order in which the units of a cycle are visited has no effect.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bits.hpp"
#include "calendar.hpp"
#include "credit_parts.hpp"
#include "flit.hpp"
#include "matcher.hpp"
#include "ring_buffer.hpp"
#include "shape.hpp"
#include "statistics.hpp"
#include "steady_state.hpp"

namespace astra::packet {

class Traffic;

// A link and its two ends. Everything a sender knows of its receiver, it learns through credits.
struct alignas(64) Channel {
  RingBuffer<Flit> flits;
  RingBuffer<Credit> credits;
  Cycle credit_due = kNever;  // when the first credit can be used
  bool sender_waits = false;  // wake the sender when a credit comes
};

// The wires of a channel that is narrower than a flit.
struct Wires {
  Span free;                         // when they can take the next flit
  Span credit_free;                  // and, the other way, the next credit
  std::optional<CreditParts> parts;  // credits that the serializers may reorder
};

enum class VcState : std::uint8_t { idle, allocating, active };

// A virtual channel as the router at its end sees it.
struct alignas(64) ReceiverVc {
  RingBuffer<Flit> buffer;
  Cycle since = 0;            // combined: arrival of the head; staged: when it can ask for an output virtual channel
  std::int32_t out = -1;      // channel
  std::int16_t out_port = 0;  // its number among the outputs of the router
  std::int16_t first_vc = 0;  // the virtual channels there that the packet may take
  std::int16_t end_vc = 0;
  std::int16_t out_vc = -1;  // the one it has
  VcState state = VcState::idle;
  std::int32_t channel = 0;  // it belongs to, and its number there
  std::int16_t number = 0;
};

// One side of a network interface: a queue of messages, and the channels from and to a router.
struct Lane {
  RingBuffer<std::uint32_t> messages;
  RingBuffer<std::uint32_t> packets;  // made, not yet sent completely, oldest first
  RingBuffer<std::uint16_t> vcs;      // of these packets
  int pointer = 0;                    // where to look for an idle virtual channel next
  std::int32_t sent = 0;              // flits of the first packet
  Cycle called_at = -1;               // when it last got a message, had anything to do, made a packet, sent a flit
  Cycle worked_at = -1;
  Cycle made_at = -1;
  Cycle sent_at = -1;
};

// The last cycle in which a unit is called by others, and how many cycles before they asked for that, at most.
struct Call {
  Cycle at = -3;  // before anything can
  Cycle ahead = 0;
  void ask(Cycle cycle, Cycle before) {
    if (cycle < at) return;
    ahead = cycle == at && ahead > before ? ahead : before;
    at = cycle;
  }
};

struct RouterState {
  // Where credits have parts.
  Call call;
  RingBuffer<Cycle> ready;  // when flits in the pipeline can leave it
  // Combined: by input, where to start among virtual channels; by output port, where to start among input ports.
  std::vector<int> input_pointer;
  std::vector<int> output_pointer;
  std::vector<Cycle> input_choice;  // when each of them last had a choice, so that it mattered
  std::vector<Cycle> output_choice;
  // Staged.
  std::vector<int> next_vc;  // by input of the switch: where to start among virtual channels
  Pointers vc_pointers;
  Pointers switch_pointers;
  Pointers speculative_pointers;
  std::uint64_t random = 1;
  std::uint32_t sprayed = 0;
};

class Domain {
 public:
  explicit Domain(std::shared_ptr<const Shape> shape);

  // Puts a message into its source's queue, after cycle `now` has been run. It is made into packets from the next cycle on, or from this
  // one where the interface is `awake` and that matters.
  void inject(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake);
  // Whether a lane was at work in cycle `now`, which has been run: it sent, received, or had something to send.
  bool awake(int lane, Cycle now) const;

  // The next cycle in which anything happens, or kNever.
  Cycle next() const { return passing_ == 0 ? next_ : next_ + passing_ * steady_.period; }
  // Bring a domain that passes over periods to the end of cycle `time`, in which nothing arrives.
  void catch_up(Cycle time);
  // Run one cycle, which must be next(). Numbers of messages that have arrived are appended to `arrived`.
  void run(Cycle time, std::vector<std::uint64_t>& arrived);
  // Messages that have not arrived.
  std::int64_t outstanding() const { return outstanding_; }
  const Shape& shape() const { return *shape_; }
  const Statistics& statistics() const { return statistics_; }

  // No message is under way and nothing is left to do (credits may still be on their way).
  bool rests() const { return outstanding_ == 0 && next() == kNever; }
  // All that decides what will happen, relative to `now`, of a domain at rest.
  std::vector<std::int64_t> signature(Cycle now);
  void clear_statistics() { statistics_ = Statistics(shape_->channels()); }

  // For each link that blocks something for ever, what holds it: "A waits for B", a line each, forming a cycle where there is one.
  std::vector<std::string> waiting() const;
  // Checks what must always hold; returns what does not, or nothing.
  std::string check() const;

  // Synthetic traffic makes messages by itself.
  void attach(Traffic* traffic);
  // Forgets all messages, or parts of them, that have not been made into packets.
  void drop_messages();
  void create(Cycle created, int lane, int destination, int flits);
  void schedule_lane(int lane, Cycle time) { schedule(shape_->routers() + lane, time); }

 private:
  friend class SteadyState;

  std::size_t vc_index(int c, int vc) const { return static_cast<std::size_t>(link(c).vc_base + vc); }
  const Link& link(int c) const { return links_[c]; }
  // Looks at a unit in that cycle or, if it does not act in that, the next one in which it does.
  void schedule(int unit, Cycle time);
  // Cycles of a unit, in cycles of the network.
  Cycle cycles_of(int unit, Cycle own) const {
    if (dividers_ == nullptr) [[likely]]
      return own;
    return own * dividers_[unit];
  }
  // The first cycle from `time` on in which a unit acts.
  Cycle edge(int unit, Cycle time) const {
    if (dividers_ == nullptr) [[likely]]
      return time;
    return later_edge(unit, time);
  }
  Cycle later_edge(int unit, Cycle time) const;
  Message& new_message(int lane, std::int64_t packets);
  void step(Cycle time);
  void receive(int c, Cycle now);

  // channels.cpp
  void send_flit(int c, Flit flit, Cycle takes);
  void send_credit(int c, std::uint16_t vc, bool frees, Cycle takes);
  void take_credits(int c, Cycle now);
  void take_parts(int c, Cycle now);
  bool comes_before_part(int c, Cycle now);
  void call_router(int r, int c, Cycle at);
  void settle_calls(int r, Cycle now);
  bool holds_flits(int r);
  void wait_for_credit(int c);

  // routing.cpp
  void set_route(int r, int in, ReceiverVc& vc, Packet& packet);
  int route(int r, int in, Packet& packet);

  // lane.cpp
  void run_lane(int l, Cycle now);
  void consume(int l, Flit flit, Cycle now);
  void make_packet(int l, Cycle now);
  int idle_from(int c, int first, int end) const;
  void send_from(int l, Cycle now);
  std::uint32_t new_packet(Message& message, std::uint32_t number, int vnet, Cycle now);

  // combined_router.cpp
  void run_combined(int r, Cycle now);
  void receive_combined(int c, Flit flit, Cycle now);
  int choose_vc(int r, int input, Cycle now);
  int idle_vc(int in, const ReceiverVc& vc) const;

  // staged_router.cpp
  void run_staged(int r, Cycle now);
  void receive_staged(int c, Flit flit, Cycle now);
  void begin_packet(int r, ReceiverVc& vc, Cycle since);
  bool allocate_vcs(int r, Cycle now);
  bool allocate_apart(int r);
  void give_vc(int r, int local, int out_vc);
  bool allocate_switch(int r, Cycle now);
  void ask_for_switch(int r, int local, std::vector<Ask>& asks);
  void forget_choices(int r, const std::vector<Ask>& asks);
  void ask_surely(int r, Cycle now);
  void ask_speculatively(int r, Cycle now);
  void cross(int r, const Ask& ask, Cycle now);
  bool has_room(const ReceiverVc& vc) const;

  void forward(int in, int in_vc, Cycle now);
  std::uint64_t* allocating(int r) { return &allocating_[router_words_[static_cast<std::size_t>(r)]]; }
  std::uint64_t* starting(int r, Cycle since) {
    if (dividers_ != nullptr) [[unlikely]]
      since /= dividers_[r];
    return &starting_[static_cast<std::size_t>(since & 3)][router_words_[static_cast<std::size_t>(r)]];
  }
  std::uint64_t* switching(int r) { return &switching_[router_words_[static_cast<std::size_t>(r)]]; }
  template <class Visit>
  void each_of_router(const std::vector<std::uint64_t>& sets, int r, Visit visit) const {
    const std::size_t first = router_words_[static_cast<std::size_t>(r)];
    each_bit(&sets[first], router_words_[static_cast<std::size_t>(r) + 1] - first, visit);
  }
  std::uint64_t* occupied(int c) { return &occupied_[static_cast<std::size_t>(link(c).bit_base)]; }
  std::uint64_t* idle(int c) { return &idle_[static_cast<std::size_t>(link(c).bit_base)]; }
  const std::uint64_t* idle(int c) const { return &idle_[static_cast<std::size_t>(link(c).bit_base)]; }
  template <class Visit>
  void each_occupied(int c, Visit visit) const;

  std::shared_ptr<const Shape> shape_;
  const Link* links_;
  const Cycle* dividers_;  // by unit; nullptr: all act in every cycle
  std::vector<Channel> channels_;
  std::vector<Wires> wires_;
  bool calls_matter_ = false;          // credits have parts on a channel at least
  std::vector<std::int32_t> credits_;  // by virtual channel, as its sender sees it
  std::vector<ReceiverVc> receivers_;
  std::vector<std::uint64_t> occupied_;    // bit sets of virtual channels by channel: those that hold flits,
  std::vector<std::uint64_t> idle_;        // and those that are not given to a packet
  std::vector<std::uint64_t> allocating_;  // staged: bit sets of virtual channels by router: heads that want an output virtual channel,
  std::vector<std::uint64_t> switching_;   // those that have one, and flits,
  std::array<std::vector<std::uint64_t>, 4> starting_;  // and heads that will want one, by the router's cycle modulo 4 from which on
  std::vector<std::size_t> router_words_;               // by router and past the last: its first word there
  std::vector<Lane> lanes_;
  std::vector<RouterState> routers_;
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_packets_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  Calendar arrivals_;  // of flits, by channel
  Calendar calendar_;  // of work, by unit
  SteadyState steady_;
  std::int64_t passing_ = 0;  // periods to be passed over before the next cycle
  int packet_made_by_ = -1;   // a lane that has made a packet in this cycle
  Statistics statistics_;
  Cycle now_ = -1;  // the last cycle that was run
  Cycle next_ = kNever;
  std::int64_t outstanding_ = 0;
  std::vector<std::uint64_t>* arrived_ = nullptr;
  Traffic* traffic_ = nullptr;

  // Scratch of a router's cycle, by output port.
  struct Request {
    int output = 0;
    int input = 0;
    int vc = 0;
    int distance = 0;
  };
  struct Candidate {
    int out = 0;
    int first_vc = 0;
    int vc = 0;
    Cycle since = 0;
  };
  std::vector<Request> requests_;
  std::vector<Candidate> candidates_;
  std::vector<int> best_;  // by output port: index of a request, or -1
  Matcher matcher_;
  std::vector<int> heads_;  // that ask for a virtual channel
  std::vector<int> given_;  // those that got one
  std::vector<Ask> asks_;
  std::vector<Ask> speculative_;
  std::vector<Ask> matched_;
  std::vector<int> choice_;  // by input of the switch and output: index of a request, or -1
};

template <class Visit>
void Domain::each_occupied(int c, Visit visit) const {
  each_bit(&occupied_[static_cast<std::size_t>(link(c).bit_base)], static_cast<std::size_t>(shape_->vc_count(c) + 63) / 64, visit);
}

}  // namespace astra::packet
