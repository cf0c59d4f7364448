// The clock, and what is to happen: ordered by time, and within an instant by when it was scheduled.
//
// An order number may be taken before it is known whether an event is needed: a port is free at a moment that has its place in the order
// even if nobody waits for it.
//
// Events of the near future lie in a wheel of buckets, each a short span of time; only those of the bucket whose turn it is are put in
// order. So an event costs the same however many wait. Events beyond the wheel lie in a heap.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace astra::roce {

enum class What : std::uint8_t { arrival, port_free, wake, start, alpha, decrease, increase, timeout, failure, nothing };

struct Event {
  Tick time;
  std::uint64_t order;
  std::uint32_t subject;  // a link, a flow, a start or a failure
  What what;
};

class Events {
 public:
  // `usual`: how far in the future most events are, at most. `shortest_shift`: a bucket has two to the power of this ticks, or more.
  Events(Tick usual, unsigned shortest_shift) : shift_(shortest_shift), heads_(kBuckets, kNone) {
    while (shift_ < kTimeBits && usual >> shift_ >= kBuckets) ++shift_;
    span_ = (std::int64_t{kBuckets} - 1) << shift_;
  }

  Tick now() const { return now_; }
  // The place of what happens now among all of this instant.
  std::uint64_t current() const { return current_; }
  std::uint64_t next_order() { return ++orders_; }
  std::uint64_t last_order() const { return orders_; }
  std::uint64_t count() const { return count_; }

  // Whether there is nothing more to happen; else `first` is next.
  bool empty() {
    if (place_ < turn_.size() && late_.empty()) {
      take_first(turn_[place_], Source::turn);
      if (first_.time < far_time_) return false;
    }
    return look_further();
  }
  const Event& first() const { return first_; }

  // The first event happens, after `empty` was asked.
  const Event& begin() {
    source_ == Source::turn ? static_cast<void>(++place_) : take_out();
    now_ = first_.time;
    current_ = first_.order;
    ++count_;
    return first_;
  }

  // `time` is not before now.
  void at(Tick time, std::uint64_t order, What what, std::uint32_t subject) {
    const std::int64_t bucket = time >> shift_;
    const auto in_bucket = static_cast<std::uint64_t>(time - (bucket << shift_));
    const Entry entry{in_bucket << kOrderBits | order, subject, what};
    bucket > bucket_&& time - now_ < span_ ? put(bucket, entry) : put_aside(time, entry);
  }
  void at(Tick time, What what, std::uint32_t subject) { at(time, next_order(), what, subject); }

  // How many wait.
  std::size_t waiting() const { return waiting_ + turn_.size() - place_ + late_.size() + far_.size(); }
  // All that wait, in order.
  std::vector<Event> all() const;
  void clear();

 private:
  static constexpr std::uint32_t kBuckets = 1U << 14;
  static constexpr unsigned kOrderBits = 48;
  static constexpr unsigned kTimeBits = 64 - kOrderBits;
  static constexpr std::uint64_t kOrders = (std::uint64_t{1} << kOrderBits) - 1;
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::size_t kFew = 24;
  static constexpr std::uint32_t kOfChunk = 3;

  // Where the first event lies.
  enum class Source : std::uint8_t { turn, late, far };

  struct Entry {
    std::uint64_t key;  // time in its bucket, then order
    std::uint32_t subject;
    What what;
  };
  // Entries of a bucket lie a few together, in a line of the processor's cache.
  struct alignas(64) Chunk {
    std::array<Entry, kOfChunk> entries;
    std::uint32_t count;
    std::uint32_t next;  // older ones
  };

  static bool later(const Event& one, const Event& other) {
    return one.time != other.time ? one.time > other.time : one.order > other.order;
  }
  static bool comes_after(const Entry& one, const Entry& other) { return one.key > other.key; }
  Tick time_of(std::int64_t bucket, std::uint64_t key) const { return (bucket << shift_) + static_cast<Tick>(key >> kOrderBits); }

  void take_first(const Entry& entry, Source source) {
    first_ = {time_of(bucket_, entry.key), entry.key & kOrders, entry.subject, entry.what};
    source_ = source;
  }

  // `empty`, where the first event may not be the next of the turn.
  bool look_further() {
    if (place_ == turn_.size() && late_.empty() && waiting_ > 0) open_next();
    const bool any = place_ < turn_.size() || !late_.empty();
    if (any) {
      const bool is_late = !late_.empty() && (place_ == turn_.size() || late_.front().key < turn_[place_].key);
      take_first(is_late ? late_.front() : turn_[place_], is_late ? Source::late : Source::turn);
    }
    if (far_.empty() || (any && !later(first_, far_.front()))) return !any;
    first_ = far_.front();
    source_ = Source::far;
    return false;
  }

  // Take the first event out of its heap.
  void take_out() {
    if (source_ == Source::late) {
      std::pop_heap(late_.begin(), late_.end(), comes_after);
      return late_.pop_back();
    }
    std::pop_heap(far_.begin(), far_.end(), later);
    far_.pop_back();
    far_time_ = far_.empty() ? kNever : far_.front().time;
    if (place_ == turn_.size() && late_.empty()) bucket_ = first_.time >> shift_;  // the wheel is empty
  }

  void put(std::int64_t bucket, const Entry& entry) {
    const auto index = static_cast<std::uint32_t>(bucket & (kBuckets - 1));
    std::uint32_t id = heads_[index];
    if (id == kNone || chunks_[id].count == kOfChunk) id = add_chunk(index);
    Chunk& chunk = chunks_[id];
    chunk.entries[chunk.count++] = entry;
    ++waiting_;
  }

  // An event that does not just go into a bucket that comes later.
  void put_aside(Tick time, const Entry& entry) {
    const std::int64_t bucket = time >> shift_;
    if (bucket - (now_ >> shift_) >= kBuckets) {
      far_.push_back({time, entry.key & kOrders, entry.subject, entry.what});
      std::push_heap(far_.begin(), far_.end(), later);
      far_time_ = far_.front().time;
      return;
    }
    if (bucket < bucket_) close();
    bucket == bucket_ ? put_in_turn(entry) : put(bucket, entry);
  }

  // A chunk without entries becomes the first of a bucket.
  std::uint32_t add_chunk(std::uint32_t index) {
    std::uint32_t id = free_;
    if (id == kNone) {
      id = static_cast<std::uint32_t>(chunks_.size());
      chunks_.emplace_back();
    } else {
      free_ = chunks_[id].next;
    }
    chunks_[id].count = 0;
    chunks_[id].next = heads_[index];
    heads_[index] = id;
    filled_[index / kBits] |= std::uint64_t{1} << index % kBits;
    return id;
  }

  // An event of the bucket whose turn it is.
  void put_in_turn(const Entry& entry) {
    if (place_ == turn_.size() || turn_.back().key < entry.key) return turn_.push_back(entry);
    late_.push_back(entry);
    std::push_heap(late_.begin(), late_.end(), comes_after);
  }

  // The next bucket that is not empty has its turn: its events, in order.
  void open_next() {
    const std::uint32_t index = next_filled(static_cast<std::uint32_t>((bucket_ + 1) & (kBuckets - 1)));
    bucket_ += static_cast<std::int64_t>((index - static_cast<std::uint64_t>(bucket_)) & (kBuckets - 1));
    filled_[index / kBits] &= ~(std::uint64_t{1} << index % kBits);
    turn_.clear();
    place_ = 0;
    std::uint32_t last = kNone;
    for (std::uint32_t id = heads_[index]; id != kNone; id = chunks_[id].next) {
      const Chunk& chunk = chunks_[id];
      __builtin_prefetch(&chunks_[chunk.next == kNone ? id : chunk.next]);
      for (std::uint32_t place = chunk.count; place-- > 0;) turn_.push_back(chunk.entries[place]);
      last = id;
    }
    chunks_[last].next = free_;
    free_ = heads_[index];
    heads_[index] = kNone;
    waiting_ -= turn_.size();
    // What was put in last came first.
    std::reverse(turn_.begin(), turn_.end());
    const auto earlier = [](const Entry& one, const Entry& other) { return one.key < other.key; };
    if (turn_.size() <= kFew) {
      for (std::size_t next = 1; next < turn_.size(); ++next) {
        const Entry entry = turn_[next];
        std::size_t place = next;
        for (; place > 0 && turn_[place - 1].key > entry.key; --place) turn_[place] = turn_[place - 1];
        turn_[place] = entry;
      }
    } else if (!std::is_sorted(turn_.begin(), turn_.end(), earlier)) {
      std::sort(turn_.begin(), turn_.end(), earlier);
    }
  }

  // An event comes before the bucket whose turn it is, of which none has happened: it has its turn later.
  void close() {
    for (std::size_t place = place_; place < turn_.size(); ++place) put(bucket_, turn_[place]);
    for (const Entry& entry : late_) put(bucket_, entry);
    late_.clear();
    turn_.clear();
    place_ = 0;
    bucket_ = now_ >> shift_;
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
  Tick span_;                         // events not so far from now lie in the wheel
  std::vector<std::uint32_t> heads_;  // of each bucket the first chunk
  std::array<std::uint64_t, kBuckets / kBits> filled_{};
  std::vector<Chunk> chunks_;
  std::uint32_t free_ = kNone;
  std::size_t waiting_ = 0;  // events in the wheel whose bucket has not had its turn
  std::vector<Entry> turn_;  // events of the bucket whose turn it is, in order,
  std::size_t place_ = 0;    // and the next of them;
  std::vector<Entry> late_;  // a heap of those that came while it had its turn, and not as the last
  std::int64_t bucket_ = 0;  // counted from time 0
  std::vector<Event> far_;   // a heap
  Tick far_time_ = kNever;   // of its first
  Event first_{};
  Source source_ = Source::turn;
  Tick now_ = 0;
  std::uint64_t current_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t count_ = 0;
};

inline std::vector<Event> Events::all() const {
  std::vector<Event> events(far_);
  const auto add = [&](std::int64_t bucket, const Entry& entry) {
    events.push_back({time_of(bucket, entry.key), entry.key & kOrders, entry.subject, entry.what});
  };
  for (std::size_t place = place_; place < turn_.size(); ++place) add(bucket_, turn_[place]);
  for (const Entry& entry : late_) add(bucket_, entry);
  const std::int64_t first = now_ >> shift_;
  for (std::uint32_t word = 0; word < filled_.size(); ++word) {
    for (std::uint64_t bits = filled_[word]; bits != 0; bits &= bits - 1) {
      const std::uint32_t index = word * kBits + static_cast<std::uint32_t>(std::countr_zero(bits));
      const std::int64_t bucket = first + ((index - first) & (kBuckets - 1));
      for (std::uint32_t id = heads_[index]; id != kNone; id = chunks_[id].next) {
        for (std::uint32_t place = 0; place < chunks_[id].count; ++place) add(bucket, chunks_[id].entries[place]);
      }
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& one, const Event& other) { return later(other, one); });
  return events;
}

inline void Events::clear() {
  std::fill(heads_.begin(), heads_.end(), kNone);
  filled_.fill(0);
  chunks_.clear();
  free_ = kNone;
  waiting_ = 0;
  turn_.clear();
  place_ = 0;
  late_.clear();
  far_.clear();
  far_time_ = kNever;
  bucket_ = now_ >> shift_;
}

}  // namespace astra::roce
