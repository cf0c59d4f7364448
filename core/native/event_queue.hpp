// Events, and the queue of those to come: buckets of events that happen at the same time and stage.
//
// Most events share their time with many others, and are added nearly in the order in which they happen. So a bucket is a list
// that notes where its order breaks, and is merged from its ordered runs when its turn comes. Only buckets are in a heap.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <variant>
#include <vector>

#include "histories.hpp"
#include "ids.hpp"

namespace astra::engine {

// Where in its instant something happens: in a round, before or among its ends, and there at a level. The order of these three is that of
// one number, which holds them all.
class Stage {
 public:
  static constexpr Stage messages(std::int64_t round) { return Stage(round * kRound); }
  static constexpr Stage ends(std::int64_t round) { return Stage(round * kRound + kEnds); }

  constexpr std::int64_t round() const { return packed_ / kRound; }
  constexpr bool is_ends() const { return packed_ & kEnds; }
  // The stage of a message or token that follows in the same instant: a level later, or after an end in the next round.
  constexpr Stage next() const { return is_ends() ? messages(round() + 1) : Stage(packed_ + 1); }

  constexpr auto operator<=>(const Stage&) const = default;
  constexpr std::uint64_t hash() const { return narrow<std::uint64_t>(packed_); }

 private:
  static constexpr std::int64_t kEnds = std::int64_t{1} << 39, kRound = std::int64_t{1} << 40;  // a level is what is below kEnds
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

// The shared bus of an NPU has finished what it did.
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

// A task ends.
struct TaskEnd {
  TaskId task;
};

// A chunk's phase step ends on an NPU.
struct StepEnd {
  StepId step;
};

// What an event does. Where times, stages and histories are equal the earlier kind of this list goes first; ends are in a stage of their
// own, where both kinds go together.
using Happening = std::variant<MessageArrival, RequestArrival, TokenReady, BusCall, PointToPointArrival, PointToPointSent,
                               PointToPointRequest, Meeting, TaskEnd, StepEnd>;

// Something that happens, which `npu` scheduled as its `order`-th.
struct Event {
  HistoryId key;      // by which it is put in order
  HistoryId history;  // from which what it brings about goes on
  std::uint32_t order;
  NpuId npu;
  Happening what;

  std::size_t precedence() const {
    constexpr std::uint8_t of[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 0};
    static_assert(std::size(of) == std::variant_size_v<Happening>);
    return of[what.index()];
  }
};
static_assert(sizeof(Event) == 32);

class EventQueue {
 public:
  explicit EventQueue(const Histories& histories) : histories_(histories) { recent_.fill(kNone); }

  bool empty() const { return heap_.empty(); }
  Time time() const { return heap_.front().time; }

  void push(Time time, Stage stage, const Event& event) {
    std::uint32_t& recent = recent_[hash(time, stage)];
    if (recent == kNone || buckets_[recent].time != time || buckets_[recent].stage != stage) recent = open(time, stage);
    Bucket& bucket = buckets_[recent];
    if (!bucket.events.empty() && before(event, bucket.events.back())) {
      bucket.breaks.push_back(next_id(bucket.events));
    }
    bucket.events.push_back(event);
  }

  // Take all events of the next time and stage, in order, into `events`.
  void pop(Time& time, Stage& stage, std::vector<Event>& events) {
    time = heap_.front().time;
    stage = heap_.front().stage;
    events.clear();
    breaks_.clear();
    do {
      std::pop_heap(heap_.begin(), heap_.end());
      const std::uint32_t number = heap_.back().bucket;
      heap_.pop_back();
      take(buckets_[number], events);
      close(number);
    } while (!heap_.empty() && heap_.front().time == time && heap_.front().stage == stage);
    if (!breaks_.empty()) merge(events);
  }

 private:
  static constexpr std::size_t kRecent = 256;
  static constexpr std::size_t kKeptCapacity = 64;  // larger buckets are given back where there are many

  struct Bucket {
    Time time = -1;
    Stage stage = Stage::messages(0);
    std::vector<Event> events;
    std::vector<std::uint32_t> breaks;  // where an event is before the one in front of it
  };

  struct Entry {
    Time time;
    Stage stage;
    std::uint32_t bucket;
    bool operator<(const Entry& other) const {  // for a heap whose front is the earliest
      return time != other.time ? time > other.time : stage > other.stage;
    }
  };

  static std::size_t hash(Time time, Stage stage) {
    const auto mixed = (narrow<std::uint64_t>(time) ^ stage.hash() << 17) * 0x9e3779b97f4a7c15u;
    return mixed >> 56;
  }

  bool before(const Event& a, const Event& b) const {
    if (a.key != b.key && !histories_.equal(a.key, b.key)) return histories_.less(a.key, b.key);
    if (a.what.index() != b.what.index() && a.precedence() != b.precedence()) return a.precedence() < b.precedence();
    if (a.order != b.order) return a.order < b.order;
    return a.npu < b.npu;
  }

  std::uint32_t open(Time time, Stage stage) {
    std::uint32_t number;
    if (free_.empty()) {
      number = next_id(buckets_);
      buckets_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    buckets_[number].time = time;
    buckets_[number].stage = stage;
    heap_.push_back({time, stage, number});
    std::push_heap(heap_.begin(), heap_.end());
    return number;
  }

  void take(Bucket& bucket, std::vector<Event>& events) {
    if (events.empty()) {
      events.swap(bucket.events);
      breaks_.swap(bucket.breaks);
    } else {
      const auto offset = next_id(events);
      breaks_.push_back(offset);
      for (const std::uint32_t place : bucket.breaks) breaks_.push_back(offset + place);
      events.insert(events.end(), bucket.events.begin(), bucket.events.end());
    }
    bucket.events.clear();
    bucket.breaks.clear();
  }

  void close(std::uint32_t number) {
    Bucket& bucket = buckets_[number];
    bucket.time = -1;
    if (free_.size() > kRecent && bucket.events.capacity() > kKeptCapacity) std::vector<Event>().swap(bucket.events);
    free_.push_back(number);
  }

  // Merge the ordered runs of `events`, two by two.
  void merge(std::vector<Event>& events) {
    const auto less = [this](const Event& a, const Event& b) { return before(a, b); };
    runs_.assign(1, 0);
    runs_.insert(runs_.end(), breaks_.begin(), breaks_.end());
    runs_.push_back(next_id(events));
    while (runs_.size() > 2) {
      std::size_t kept = 0;
      std::size_t run = 0;
      scratch_.resize(events.size());
      for (; run + 2 < runs_.size(); run += 2) {
        const auto begin = events.begin();
        std::merge(begin + runs_[run], begin + runs_[run + 1], begin + runs_[run + 1], begin + runs_[run + 2],
                   scratch_.begin() + runs_[run], less);
        runs_[kept++] = runs_[run];
      }
      if (run + 1 < runs_.size()) {
        std::copy(events.begin() + runs_[run], events.begin() + runs_[run + 1], scratch_.begin() + runs_[run]);
        runs_[kept++] = runs_[run];
      }
      runs_[kept++] = runs_.back();
      runs_.resize(kept);
      events.swap(scratch_);
    }
  }

  const Histories& histories_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> heap_;
  std::array<std::uint32_t, kRecent> recent_;
  std::vector<std::uint32_t> breaks_;
  std::vector<std::uint32_t> runs_;
  std::vector<Event> scratch_;
};

}  // namespace astra::engine
