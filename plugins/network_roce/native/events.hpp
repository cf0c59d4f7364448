// The clock, and future events: ordered by time, and within an instant by when they were scheduled.
//
// An order number may be taken before it is known whether an event is needed: a port is free at a moment that has its place in the order
// even if it is not needed.
//
// Events of the near future are in a wheel of buckets, each a short span of time; only those of the bucket whose turn it is are put in
// order. So an event costs the same however many wait. Events beyond the wheel are in a heap.
//
// It is no `RadixQueue` of the kernel, which keeps events of one time in the order in which they were added: here an event may get a place
// among those of its instant that was taken before.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "types.hpp"

namespace astra::roce {

enum class EventKind : std::uint8_t { arrival, port_free, wake, start, alpha, decrease, increase, timeout, failure, nothing };

struct Event {
  Tick time;
  std::uint64_t order;
  std::uint32_t subject;  // a packet that arrives, a port, a flow, a start or a failure
  LinkId link;            // by which a packet arrives
  EventKind what;
};

class Events {
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};

 public:
  // An event, in a word.
  class EventRef {
   public:
    EventRef() = default;
    EventRef(EventKind what, std::uint32_t subject, LinkId link)
        : bits_(std::uint64_t{link} << 36 | std::uint64_t{subject} << 4 | static_cast<std::uint64_t>(what)) {}
    EventKind what() const { return static_cast<EventKind>(bits_ & 15); }
    std::uint32_t subject() const { return static_cast<std::uint32_t>(bits_ >> 4); }
    LinkId link() const { return static_cast<LinkId>(bits_ >> 36); }

   private:
    std::uint64_t bits_ = 0;
  };
  // An event of a bucket.
  struct Entry {
    std::uint64_t key = kLast;  // time in its bucket, then order
    EventRef thing{};
  };

  // `usual`: how far in the future most events are, at most. `shortest_shift`: a bucket has two to the power of this ticks, or more.
  Events(Tick usual, unsigned shortest_shift) : shift_(shortest_shift), buckets_(kBuckets), chunks_(1), older_(1, kNone), turn_(1) {
    while (shift_ < kTimeBits && usual >> shift_ >= kBuckets) ++shift_;
    span_ = (std::int64_t{kBuckets} - 1) << shift_;
  }

  Tick now() const { return now_; }
  // The place of the current event among all of this instant.
  std::uint64_t current() const { return current_; }
  std::uint64_t next_order() { return ++orders_; }
  std::uint64_t last_order() const { return orders_; }
  std::uint64_t count() const { return count_; }

  // Whether there are no more events; else `first` is next, at `first_time`.
  bool empty() {
    const Entry next = turn_[place_];
    if (next.key >= limit_) return look_further();
    first_ = next;
    first_time_ = time_of(base_, next.key);
    source_ = Source::turn;
    return false;
  }
  EventRef first() const { return first_.thing; }
  Tick first_time() const { return first_time_; }
  // When a bucket has had its turn since this was asked: events of the next one, some of them; else none.
  std::span<const Entry> soon() {
    const std::uint32_t count = soon_;
    soon_ = 0;
    return {chunks_[next_chunk_].data(), count};
  }

  // The n-th event after the first, if it belongs to the same bucket; else none.
  const Entry* ahead(std::size_t count) const { return place_ + count < end_ ? &turn_[place_ + count] : nullptr; }

  // The first event happens, after `empty` was asked.
  void begin() {
    if (source_ == Source::turn) {
      ++place_;
    } else {
      take_out();
    }
    now_ = first_time_;
    current_ = first_.key & kOrders;
    ++count_;
  }

  // `time` is not before now.
  void at(Tick time, std::uint64_t order, EventKind what, std::uint32_t subject, LinkId link = 0) {
    const std::int64_t bucket = time >> shift_;
    const auto in_bucket = static_cast<std::uint64_t>(time - (bucket << shift_));
    const Entry entry{in_bucket << kOrderBits | order, {what, subject, link}};
    bucket > bucket_&& time - now_ < span_ ? put(bucket, entry) : put_aside(time, entry);
  }
  void at(Tick time, EventKind what, std::uint32_t subject) { at(time, next_order(), what, subject); }

  // How many wait.
  std::size_t waiting() const { return waiting_ + end_ - place_ + late_.size() + far_.size(); }
  // All that wait, in order.
  std::vector<Event> all() const;
  void clear();

 private:
  static constexpr std::uint32_t kBuckets = 1U << 14;
  static constexpr unsigned kOrderBits = 48;
  static constexpr unsigned kTimeBits = 64 - kOrderBits;
  static constexpr std::uint64_t kOrders = (std::uint64_t{1} << kOrderBits) - 1;
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::size_t kFew = 16;  // moves of an event, while a bucket is put in order one by one
  static constexpr std::uint32_t kOfChunk = 16;

  // The place of the first event.
  enum class Source : std::uint8_t { turn, late, far };

  // Entries of a bucket are partly together, so that all are prefetched at once before its turn.
  using Chunk = std::array<Entry, kOfChunk>;
  struct Bucket {
    std::uint32_t head = kNone;  // the newest chunk
    std::uint32_t count = 0;     // of entries
  };

  static bool later(const Event& one, const Event& other) {
    return one.time != other.time ? one.time > other.time : one.order > other.order;
  }
  static bool comes_before(const Entry& one, const Entry& other) { return one.key < other.key; }
  static bool comes_after(const Entry& one, const Entry& other) { return one.key > other.key; }
  static Tick time_of(Tick base, std::uint64_t key) { return base + static_cast<Tick>(key >> kOrderBits); }
  static Event event_of(Tick base, const Entry& entry) {
    return {time_of(base, entry.key), entry.key & kOrders, entry.thing.subject(), entry.thing.link(), entry.thing.what()};
  }

  // `empty`, if the first event may not be the next of the turn.
  [[gnu::noinline]] bool look_further();
  // Take the first event out of its heap.
  [[gnu::noinline]] void take_out();
  // An event that does not just go into a bucket that comes later.
  [[gnu::noinline]] void put_aside(Tick time, Entry entry);

  void put(std::int64_t number, Entry entry) {
    const auto index = static_cast<std::uint32_t>(number & (kBuckets - 1));
    Bucket& bucket = buckets_[index];
    const std::uint32_t place = bucket.count++ % kOfChunk;
    if (place == 0) add_chunk(index);
    chunks_[bucket.head][place] = entry;
    ++waiting_;
  }

  // A chunk without entries becomes the first of a bucket.
  void add_chunk(std::uint32_t index) {
    if (free_ == kNone) make_chunk();
    const std::uint32_t id = free_;
    free_ = older_[id];
    older_[id] = buckets_[index].head;
    buckets_[index].head = id;
    filled_[index / kBits] |= std::uint64_t{1} << index % kBits;
  }
  [[gnu::noinline]] void make_chunk() {
    free_ = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
    older_.push_back(kNone);
  }

  // An event of the bucket whose turn it is.
  void put_in_turn(Entry entry) {
    if (end_ - place_ > kFew && turn_[end_ - kFew].key > entry.key) {
      late_.push_back(entry);
      std::push_heap(late_.begin(), late_.end(), comes_after);
      return set_limit();
    }
    std::size_t place = end_++;
    for (; place > place_ && turn_[place - 1].key > entry.key; --place) turn_[place] = turn_[place - 1];
    turn_[place] = entry;
    if (turn_.size() == end_) turn_.resize(2 * end_);
    turn_[end_] = Entry{};
  }

  // The first of the events beside the turn may come before the next of the turn.
  void set_limit() {
    limit_ = late_.empty() ? kLast : late_.front().key;
    if (!far_.empty() && far_.front().time >> shift_ <= bucket_) limit_ = 0;
  }
  void begin_bucket(std::int64_t bucket) {
    bucket_ = bucket;
    base_ = bucket << shift_;
  }
  void end_turn() {
    place_ = end_ = 0;
    turn_[0] = Entry{};
  }

  // The next bucket that is not empty has its turn: its events, in order.
  void open_next() {
    const std::uint32_t index = next_filled(static_cast<std::uint32_t>((bucket_ + 1) & (kBuckets - 1)));
    begin_bucket(bucket_ + static_cast<std::int64_t>((index - static_cast<std::uint64_t>(bucket_)) & (kBuckets - 1)));
    filled_[index / kBits] &= ~(std::uint64_t{1} << index % kBits);
    Bucket& bucket = buckets_[index];
    place_ = 0;
    end_ = bucket.count;
    if (turn_.size() <= end_) turn_.resize(2 * end_);
    turn_[end_] = Entry{};
    // The latest entry comes first.
    for (std::uint32_t left = bucket.count; left > 0;) {
      const std::uint32_t id = bucket.head;
      const std::uint32_t count = (left - 1) % kOfChunk + 1;
      left -= count;
      std::copy_n(chunks_[id].begin(), count, turn_.begin() + left);
      bucket.head = older_[id];
      older_[id] = free_;
      free_ = id;
    }
    bucket.count = 0;
    waiting_ -= end_;
    sort_turn();
    set_limit();
    look_ahead(index);
  }

  // Prefetch the buckets after this one.
  void look_ahead(std::uint32_t index) {
    if (waiting_ == 0) return;
    const std::uint32_t next = next_filled((index + 1) % kBuckets);
    soon_ = std::min(buckets_[next].count, kOfChunk);
    next_chunk_ = oldest_chunk(buckets_[next]);
    const Bucket& later = buckets_[next_filled((next + 1) % kBuckets)];
    const Chunk& chunk = chunks_[oldest_chunk(later)];
    for (std::uint32_t place = 0; place < std::min(later.count, kOfChunk); place += 64 / sizeof(Entry)) __builtin_prefetch(&chunk[place]);
  }
  std::uint32_t oldest_chunk(const Bucket& bucket) const {
    std::uint32_t id = bucket.head;
    for (std::uint32_t count = bucket.count; count > kOfChunk; count -= kOfChunk) id = older_[id];
    return id;
  }

  void sort_turn() {
    std::size_t moves = kFew * end_;
    for (std::size_t next = 1; next < end_; ++next) {
      const Entry entry = turn_[next];
      std::size_t place = next;
      for (; place > 0 && turn_[place - 1].key > entry.key; --place) turn_[place] = turn_[place - 1];
      turn_[place] = entry;
      moves -= next - place;
      if (moves > kFew * end_) {
        const auto first = turn_.begin();
        return std::sort(first, first + static_cast<std::ptrdiff_t>(end_), comes_before);
      }
    }
  }

  // An event comes before the bucket whose turn it is, of which none has happened: it has its turn later.
  void close() {
    for (std::size_t place = place_; place < end_; ++place) put(bucket_, turn_[place]);
    for (const Entry& entry : late_) put(bucket_, entry);
    late_.clear();
    end_turn();
    begin_bucket(now_ >> shift_);
    set_limit();
  }

  // The first bucket from this one on, round, that is not empty. There is one.
  std::uint32_t next_filled(std::uint32_t index) const {
    std::uint32_t word = index / kBits;
    std::uint64_t bits = filled_[word] & ~std::uint64_t{0} << index % kBits;
    while (bits == 0) {
      word = (word + 1) % filled_.size();
      bits = filled_[word];
    }
    return word * kBits + static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  unsigned shift_;
  Tick span_;  // events nearer than this are in the wheel
  std::vector<Bucket> buckets_;
  std::array<std::uint64_t, kBuckets / kBits> filled_{};
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> older_;  // of each chunk the next of its bucket, or of those that are free
  std::uint32_t free_ = 0;
  std::uint32_t soon_ = 0;  // entries of the next bucket, in one of its chunks, until they are asked for
  std::uint32_t next_chunk_ = 0;
  std::size_t waiting_ = 0;      // events in the wheel whose bucket has not had its turn
  std::vector<Entry> turn_;      // events of the bucket whose turn it is, in order,
  std::size_t place_ = 0;        // and the next of them,
  std::size_t end_ = 0;          // up to here, at a mark;
  std::vector<Entry> late_;      // a heap of those that came while it had its turn, and not as the last
  std::uint64_t limit_ = kLast;  // the next of the turn is the first of all events where its key is below this
  std::int64_t bucket_ = 0;      // counted from time 0
  Tick base_ = 0;                // when it begins
  std::vector<Event> far_;       // a heap
  Entry first_{};
  Tick first_time_ = 0;
  Source source_ = Source::turn;
  Tick now_ = 0;
  std::uint64_t current_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace astra::roce
