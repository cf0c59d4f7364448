// Events, and the queue of those to come.
//
// Later events are in a radix queue, by time. An event added to the current instant belongs to one of two stages: the level after
// the one that it is, or the next ends. So each stage has a list. Most events share their stage with many others, and are added nearly in
// the order in which they happen: a list notes where its order breaks, and is merged from its ordered runs when its turn comes.
#pragma once

#include <algorithm>
#include <astra_sim/radix_queue.hpp>
#include <compare>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "causal_keys.hpp"
#include "ids.hpp"

namespace astra::engine {

// The position of an event within its instant: in a round, before or among its ends, and there at a level. The order of these three is that
// of one number, which holds them all.
class Stage {
 public:
  static constexpr Stage messages(std::int64_t round) { return Stage(round * kRound); }
  static constexpr Stage ends(std::int64_t round) { return Stage(round * kRound + kEnds); }

  constexpr std::int64_t round() const { return packed_ / kRound; }
  constexpr bool is_ends() const { return packed_ & kEnds; }
  // The stage of a message or token that follows in the same instant: a level later, or after an end in the next round.
  constexpr Stage next() const { return is_ends() ? messages(round() + 1) : Stage(packed_ + 1); }

  // The stage of a task or step that ends in the same instant: after the messages of this round, or of the next one after an end.
  constexpr Stage next_ends() const { return ends(round() + is_ends()); }

  constexpr auto operator<=>(const Stage&) const = default;

 private:
  static constexpr std::int64_t kEnds = std::int64_t{1} << 39, kRound = std::int64_t{1} << 40;  // a level is the part below kEnds
  explicit constexpr Stage(std::int64_t packed) : packed_(packed) {}

  std::int64_t packed_;
};

// A message of a phase has reached the rank that receives it.
struct MessageArrival {
  RankId rank;
  ReceiptId receipt;
};

// The request for a message of a phase has reached its sender (rendezvous). `rank` and `receipt` are those that asked.
struct RequestArrival {
  RankId rank;
  ReceiptId receipt;
};

// The endpoint of a rank has handled a message, or a start.
struct TokenReady {
  RankId rank;
};

// The shared bus of an NPU has finished a transfer.
struct BusCall {
  NpuId npu;
  std::uint32_t call;
};

// The message of a SEND has reached its destination.
struct PointToPointArrival {
  MailboxId mailbox;
  TaskId sender;
};

// The sender of a SEND knows that its message has arrived.
struct PointToPointSent {
  TaskId sender;
};

// The request of a RECEIVE has reached the sender (rendezvous).
struct PointToPointRequest {
  MailboxId mailbox;
};

// A receive was posted whose message is there already.
struct Meeting {
  RankId rank;
  ReceiptId receipt;
};

// The processor of its sender has sent a message.
struct Departure {
  HandledId message;
};

// A message has reached its destination, whose processor is to receive it.
struct Landing {
  HandledId message;
};

// The processor of its destination has received a message.
struct Reception {
  HandledId message;
};

// A task ends.
struct TaskEnd {
  TaskId task;
};

// A chunk's phase step ends on an NPU.
struct StepEnd {
  StepId step;
};

// The action of an event. If times, stages and causal keys are equal the earlier kind of this list goes first; ends are in a stage of their
// own, in which both kinds go together.
using EventPayload = std::variant<MessageArrival, RequestArrival, TokenReady, BusCall, PointToPointArrival, PointToPointSent,
                                  PointToPointRequest, Meeting, Departure, Landing, Reception, TaskEnd, StepEnd>;

// Consecutive events that are equal but for their numbers may be one: a run. The events of a run are distinguished by steps:
// how far the NPU, the place of the rank and the receipt of one are from those before.
struct Run {
  // By whom the things that NPUs schedule are numbered. A run is of events between which no other can come: those that the NPUs 4, 5, 6
  // schedule each as its 9th, or events 9, 10, 11 of all NPUs. Ends, and events that are no message or token of a rank, happen alone.
  enum Numbering : std::uint32_t { alone, by_npu, by_all };

  static constexpr std::uint32_t kLongest = 0xffff;
  static constexpr std::int32_t kFarthest = 1023;  // of two places

  std::uint32_t count : 16 = 1;
  std::int32_t place_step : 11 = 0;
  std::uint32_t npu_step : 1 = 0;
  std::uint32_t receipt_step : 1 = 0;
  std::uint32_t via_now : 1 = 0;  // it came via the instant in which it happens, and is put in order as if it had not
  std::uint32_t numbering : 2 = alone;

  bool steps_as(const Run& other) const {
    return place_step == other.place_step && npu_step == other.npu_step && receipt_step == other.receipt_step;
  }
};
static_assert(sizeof(Run) == 4);

// An event that `npu` scheduled as its `order`-th; if it represents a run, the first of it.
struct Event {
  CausalKeyId key;  // by which it is ordered, and from which its effects continue
  std::uint32_t order;
  NpuId npu;
  Run run;
  EventPayload what;

  bool is_end() const { return std::holds_alternative<TaskEnd>(what) || std::holds_alternative<StepEnd>(what); }

  std::size_t precedence() const {
    constexpr std::uint8_t of[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0};
    static_assert(std::size(of) == std::variant_size_v<EventPayload>);
    return of[what.index()];
  }

  // Let an event that was added after this one, at the same stage, become part of its run, if it goes on with it.
  bool absorb(const Event& next) {
    if (key != next.key || run.numbering == Run::alone || run.numbering != next.run.numbering) return false;
    if (run.via_now != next.run.via_now || what.index() != next.what.index()) return false;
    if (const auto* arrival = std::get_if<MessageArrival>(&what)) {
      const MessageArrival& other = *std::get_if<MessageArrival>(&next.what);
      return absorb(next, arrival->rank, other.rank, other.receipt - arrival->receipt);
    }
    return absorb(next, std::get_if<TokenReady>(&what)->rank, std::get_if<TokenReady>(&next.what)->rank, 0);
  }

 private:
  bool absorb(const Event& next, RankId rank, RankId other, std::uint32_t receipts) {
    const std::uint32_t count = run.count, places = other.place - rank.place, npus = next.npu - npu;
    if (next.order != order + (run.numbering == Run::by_all ? count : 0) || rank.phase != other.phase) return false;
    if (count == 1) {
      if (next.run.count > 1) return false;
      const auto step = narrow<std::int32_t>(places);
      if (npus > 1 || receipts > 1 || step > Run::kFarthest || step < -Run::kFarthest) return false;
      if (npus == 0 && run.numbering == Run::by_npu) return false;
      run.place_step = step;
      run.npu_step = npus;
      run.receipt_step = receipts;
    } else {
      const auto step = narrow<std::uint32_t>(std::int32_t{run.place_step});
      if (places != step * count || npus != run.npu_step * count || receipts != run.receipt_step * count) return false;
      if (count + next.run.count > Run::kLongest || (next.run.count > 1 && !run.steps_as(next.run))) return false;
    }
    run.count = count + next.run.count;
    return true;
  }
};
static_assert(sizeof(Event) == 32);

// Events of one stage, in the order in which they were added.
class StageEvents {
 public:
  explicit StageEvents(const CausalKeys& causal_keys) : causal_keys_(causal_keys) {}

  bool empty() const { return events_.empty(); }

  // Add Event{members...}, made where it stays: to copy what has just been written in parts waits for these.
  template <typename... Members>
  void add(const Members&... members) {
    const Event& event = *::new (static_cast<void*>(&events_.emplace_back())) Event{members...};
    const std::size_t last = events_.size() - 1;
    if (last == 0) return;
    if (events_[last - 1].absorb(event)) {
      events_.pop_back();
    } else if (before(event, events_[last - 1])) {
      breaks_.push_back(narrow<std::uint32_t>(last));
    }
  }

  // Take all events, in the order in which they happen, into `events`, which held those of another stage.
  void take(std::vector<Event>& events) {
    events.clear();
    events.swap(events_);
    if (!breaks_.empty()) merge(events);
    breaks_.clear();
  }

 private:
  bool before(const Event& a, const Event& b) const {
    if (a.key != b.key && !causal_keys_.equal(a.key, b.key)) return causal_keys_.less(a.key, b.key);
    if (a.what.index() != b.what.index() && a.precedence() != b.precedence()) return a.precedence() < b.precedence();
    if (a.order != b.order) return a.order < b.order;
    return a.npu < b.npu;
  }

  // Merge the ordered runs of `events`, two by two.
  void merge(std::vector<Event>& events) {
    const auto less = [this](const Event& a, const Event& b) { return before(a, b); };
    runs_.assign(1, 0);
    runs_.insert(runs_.end(), breaks_.begin(), breaks_.end());
    runs_.push_back(next_id(events));
    while (runs_.size() > 2) {
      std::size_t retained = 0;
      std::size_t run = 0;
      scratch_.resize(events.size());
      for (; run + 2 < runs_.size(); run += 2) {
        const auto begin = events.begin();
        std::merge(begin + runs_[run], begin + runs_[run + 1], begin + runs_[run + 1], begin + runs_[run + 2],
                   scratch_.begin() + runs_[run], less);
        runs_[retained++] = runs_[run];
      }
      if (run + 1 < runs_.size()) {
        std::copy(events.begin() + runs_[run], events.begin() + runs_[run + 1], scratch_.begin() + runs_[run]);
        runs_[retained++] = runs_[run];
      }
      runs_[retained++] = runs_.back();
      runs_.resize(retained);
      events.swap(scratch_);
    }
  }

  const CausalKeys& causal_keys_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> breaks_;  // where an event is before the one in front of it
  std::vector<std::uint32_t> runs_;
  std::vector<Event> scratch_;
};

// The event of a later instant that was added last, if it is a run, and the key of the one that continues it. If ranks are in
// step nearly all events go on so, and need no place of their own.
class OpenRun {
 public:
  // Let an event be the next of the run, if it continues it.
  bool absorb(Time time, CausalKeyId key, std::uint32_t order, NpuId npu, bool via_now, RankId rank, ReceiptId receipt, bool is_message) {
    if (time != time_ || place_ != rank.place || npu_ != npu || phase_ != rank.phase || order_ != order || receipt_ != receipt)
      return false;
    if (key_ != key || via_now_ != via_now || is_message_ != is_message || event_->run.count == Run::kLongest) return false;
    ++event_->run.count;
    go_on(event_->run);
    return true;
  }

  // An event was added to a later instant.
  void open(Time time, Event& event) {
    if (event.run.count < 2) return close();
    event_ = &event;
    time_ = time;
    const auto* message = std::get_if<MessageArrival>(&event.what);
    const RankId rank = message ? message->rank : std::get_if<TokenReady>(&event.what)->rank;
    is_message_ = message != nullptr;
    via_now_ = event.run.via_now;
    key_ = event.key;
    phase_ = rank.phase;
    order_ = event.order;
    npu_ = event.npu;
    place_ = rank.place;
    receipt_ = message ? message->receipt : 0;
    for (std::uint32_t count = event.run.count; count > 0; --count) go_on(event.run);
  }

  // Events are taken, or sorted to find the next: the run may be gone, or moved.
  void close() { time_ = -1; }

 private:
  void go_on(const Run& run) {
    order_ += run.numbering == Run::by_all;
    npu_ += run.npu_step;
    place_ += narrow<std::uint32_t>(std::int32_t{run.place_step});
    receipt_ += run.receipt_step;
  }

  Time time_ = -1;
  Event* event_ = nullptr;
  CausalKeyId key_ = 0;
  PhaseId phase_ = 0;
  std::uint32_t order_ = 0;
  NpuId npu_ = 0;
  std::uint32_t place_ = 0;
  ReceiptId receipt_ = 0;
  bool is_message_ = false, via_now_ = false;
};

// An event of a later instant.
struct Later {
  Time time;
  Event event;

  bool absorb(const Later& next) { return time == next.time && event.absorb(next.event); }
};

// Events of later instants, each no earlier than those before it: so they come in the order in which they were added.
class EventsInOrder {
 public:
  bool empty() const { return begin_ == end_; }
  bool accepts(Time time) const { return time >= last_time_; }
  // When the next one happens; the last of all times where there is none.
  Time next_time() const { return next_time_; }
  // Whether the next one happens at a time, before which there is none.
  bool has(Time time) const { return next_time_ == time && !empty(); }

  // Add Later{members...}, or let it become part of the one before. Returns which; it stays there until another is added.
  template <typename... Members>
  Event& push(Time time, const Members&... members) {
    if (end_ - begin_ == events_.size()) grow();
    Later& added = *::new (static_cast<void*>(&at(end_))) Later{time, Event{members...}};
    last_time_ = time;
    if (empty()) {
      next_time_ = time;
    } else if (at(end_ - 1).absorb(added)) {
      return at(end_ - 1).event;
    }
    ++end_;
    return added.event;
  }

  // Take the next event; there is one.
  const Event& take() {
    const Event& taken = at(begin_++).event;
    next_time_ = empty() ? kLastTime : at(begin_).time;
    return taken;
  }

 private:
  static constexpr std::size_t kFirst = 16;
  static constexpr Time kLastTime = std::numeric_limits<Time>::max();

  Later& at(std::size_t place) { return events_[place & (events_.size() - 1)]; }

  void grow() {
    std::vector<Later> larger(2 * events_.size());
    for (std::size_t place = begin_; place != end_; ++place) larger[place & (larger.size() - 1)] = at(place);
    events_.swap(larger);
  }

  std::vector<Later> events_{kFirst};  // 2^n places, used in turn
  std::size_t begin_ = 0, end_ = 0;    // of the events, counted from the first ever
  Time next_time_ = kLastTime, last_time_ = 0;
};

// The events to come, and the time and stage of those taken last.
class EventQueue {
 public:
  explicit EventQueue(const CausalKeys& causal_keys) : next_level_(causal_keys), ends_(causal_keys) {}

  bool empty() const { return is_instant_over() && !has_later(); }
  Time now() const { return now_; }
  Stage stage() const { return stage_; }
  // When the next event happens; there is one.
  Time next_time() {
    if (!is_instant_over()) return now_;
    open_.close();
    return next_later();
  }

  // An event with these members, of the next level of this instant, or of its next ends, or of a later instant.
  template <typename What>
  void push(Time time, CausalKeyId key, std::uint32_t order, NpuId npu, const Run& run, const What& what) {
    if (time != now_) return open_.open(time, push_later(time, key, order, npu, run, what));
    constexpr bool is_end = std::is_same_v<What, TaskEnd> || std::is_same_v<What, StepEnd>;
    (is_end ? ends_ : next_level_).add(key, order, npu, run, what);
  }
  // Whether a message or token of a rank is the next of the run that was added to last, so that it need not be added.
  bool goes_on(Time time, CausalKeyId key, std::uint32_t order, NpuId npu, bool via_now, const MessageArrival& what) {
    return open_.absorb(time, key, order, npu, via_now, what.rank, what.receipt, true);
  }
  bool goes_on(Time time, CausalKeyId key, std::uint32_t order, NpuId npu, bool via_now, const TokenReady& what) {
    return open_.absorb(time, key, order, npu, via_now, what.rank, 0, false);
  }

  // Take all events of the next stage, in order: those of a span that stays until the next call, in `room` where they are several.
  std::span<const Event> pop(std::vector<Event>& room) {
    if (is_instant_over()) {
      if (const Event* one = go_on()) return {one, 1};
    } else {
      stage_ = next_level_.empty() ? stage_.next_ends() : stage_.next();
    }
    (next_level_.empty() ? ends_ : next_level_).take(room);
    return room;
  }

 private:
  bool is_instant_over() const { return next_level_.empty() && ends_.empty(); }
  bool has_later() const { return !tokens_.empty() || !later_.empty(); }
  Time next_later() { return later_.empty() ? tokens_.next_time() : std::min(tokens_.next_time(), later_.next_time()); }

  // An endpoint takes as long for most tokens, which so come in the order in which they were added.
  template <typename What>
  Event& push_later(Time time, CausalKeyId key, std::uint32_t order, NpuId npu, const Run& run, const What& what) {
    if constexpr (std::is_same_v<What, TokenReady>) {
      if (tokens_.accepts(time)) return tokens_.push(time, key, order, npu, run, what);
    }
    return later_.push(time, key, order, npu, run, what).event;
  }

  StageEvents& stage_of(const Event& event) { return event.is_end() ? ends_ : next_level_; }

  // Go on to the next instant. If it has one event that is taken, else nullptr.
  const Event* go_on() {
    open_.close();
    now_ = next_later();
    const bool has_others = !later_.empty() && later_.next_time() == now_;
    if (!has_others) {
      const Event& token = tokens_.take();
      if (!tokens_.has(now_)) return take_alone(token);
      next_level_.add(token);
    } else if (!tokens_.has(now_)) {
      if (const Later* later = later_.take_one()) return take_alone(later->event);
    }
    while (tokens_.has(now_)) next_level_.add(tokens_.take());
    if (has_others) later_.take([this](const Later& next) { stage_of(next.event).add(next.event); });
    stage_ = next_level_.empty() ? Stage::ends(0) : Stage::messages(0);
    return nullptr;
  }

  const Event* take_alone(const Event& event) {
    stage_ = event.is_end() ? Stage::ends(0) : Stage::messages(0);
    alone_ = event;
    return &alone_;
  }

  Time now_ = 0;
  Stage stage_ = Stage::ends(0);
  StageEvents next_level_, ends_;  // of this instant
  EventsInOrder tokens_;           // of later ones,
  RadixQueue<Later> later_;        // and all other events
  OpenRun open_;                   // of those
  Event alone_{};                  // the only one of this instant
};

}  // namespace astra::engine
