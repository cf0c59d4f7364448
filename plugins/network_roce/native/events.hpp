// The clock, and future events: ordered by time, and within an instant by when they were scheduled.
//
// An order number may be taken before it is known whether an event is needed: a port is free at a moment that has its place in the order
// even if it is not needed.
//
// Events of the near future are in a wheel of buckets; only those of the bucket whose turn it is are put in order. Events beyond the wheel
// are in a heap.
//
// It is no `RadixQueue` of the kernel, which keeps events of one time in the order in which they were added: here an event may get a place
// among those of its instant that was taken before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bucket_turn.hpp"
#include "event.hpp"
#include "event_wheel.hpp"
#include "types.hpp"

namespace astra::roce {

class Events {
 public:
  // `usual`: how far in the future most events are, at most. `shortest_shift`: a bucket has two to the power of this ticks, or more.
  Events(Tick usual, unsigned shortest_shift)
      : shift_(shift_for(usual, shortest_shift)), span_((std::int64_t{EventWheel::kBuckets} - 1) << shift_), turn_(shift_) {}

  Tick now() const { return now_; }
  // The place of the current event among all of this instant.
  std::uint64_t current() const { return current_; }
  std::uint64_t next_order() { return ++orders_; }
  std::uint64_t last_order() const { return orders_; }
  std::uint64_t count() const { return count_; }

  // Whether there are no more events; else `first` is next, at `first_time`.
  bool empty() {
    const BucketEvent next = turn_.next();
    if (next.key >= limit_) return look_further();
    first_ = next;
    first_time_ = next.time(base_);
    source_ = Source::turn;
    return false;
  }
  EventRef first() const { return first_.thing; }
  Tick first_time() const { return first_time_; }
  // When a bucket has had its turn since this was asked: events of the next one, some of them; else none.
  std::span<const BucketEvent> soon() { return wheel_.soon(); }

  // The n-th event after the first, if it belongs to the same bucket; else one that means nothing. For small numbers.
  EventRef ahead(std::size_t count) const { return turn_.ahead(count).thing; }

  // The first event happens, after `empty` was asked.
  void begin() {
    if (source_ == Source::turn) {
      turn_.take_next();
    } else {
      take_out();
    }
    now_ = first_time_;
    current_ = first_.order();
    ++count_;
  }

  // `time` is not before now.
  void at(Tick time, std::uint64_t order, EventKind what, std::uint32_t subject, LinkId link = 0) {
    const std::int64_t bucket = time >> shift_;
    const auto in_bucket = static_cast<std::uint64_t>(time - (bucket << shift_));
    const BucketEvent event{in_bucket << BucketEvent::kOrderBits | order, {what, subject, link}};
    bucket > bucket_&& time - now_ < span_ ? wheel_.put(bucket, event) : put_aside(time, event);
  }
  void at(Tick time, EventKind what, std::uint32_t subject) { at(time, next_order(), what, subject); }

  // How many wait.
  std::size_t waiting() const { return wheel_.waiting() + turn_.count() + far_.size(); }
  // All that wait, in order.
  std::vector<Event> all() const;
  void clear();

 private:
  // The place of the first event.
  enum class Source : std::uint8_t { turn, late, far };

  static unsigned shift_for(Tick usual, unsigned shift) {
    while (shift < BucketEvent::kTimeBits && usual >> shift >= EventWheel::kBuckets) ++shift;
    return shift;
  }
  // `empty`, if the first event may not be the next of the turn.
  [[gnu::noinline]] bool look_further();
  // Take the first event out of its heap.
  [[gnu::noinline]] void take_out();
  // An event that does not just go into a bucket that comes later.
  [[gnu::noinline]] void put_aside(Tick time, BucketEvent event);

  // The first of the events beside the turn may come before the next of the turn.
  void set_limit() {
    limit_ = turn_.has_late() ? turn_.late().key : BucketEvent::kLast;
    if (!far_.empty() && far_.front().time >> shift_ <= bucket_) limit_ = 0;
  }
  void begin_bucket(std::int64_t bucket) {
    bucket_ = bucket;
    base_ = bucket << shift_;
  }

  // The next bucket that is not empty has its turn: its events, in order.
  void open_next() {
    begin_bucket(wheel_.next_after(bucket_));
    wheel_.take(bucket_, turn_.open(wheel_.count(bucket_)));
    turn_.sort();
    set_limit();
    wheel_.look_ahead(bucket_);
  }

  // An event comes before the bucket whose turn it is, of which none has happened: it has its turn later.
  void close() {
    turn_.each([this](const BucketEvent& event) { wheel_.put(bucket_, event); });
    turn_.clear();
    begin_bucket(now_ >> shift_);
    set_limit();
  }

  unsigned shift_;
  Tick span_;  // events nearer than this are in the wheel
  EventWheel wheel_;
  BucketTurn turn_;
  std::uint64_t limit_ = BucketEvent::kLast;  // the next of the turn is the first of all events where its key is below this
  std::int64_t bucket_ = 0;                   // whose turn it is, counted from time 0
  Tick base_ = 0;                             // when it begins
  std::vector<Event> far_;                    // a heap
  BucketEvent first_{};
  Tick first_time_ = 0;
  Source source_ = Source::turn;
  Tick now_ = 0;
  std::uint64_t current_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace astra::roce
