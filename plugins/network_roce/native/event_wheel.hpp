// Events of the near future in a wheel of buckets, each a short span of time. So an event costs the same however many wait.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "event.hpp"
#include "large_array.hpp"
#include "types.hpp"

namespace astra::roce {

class EventWheel {
 public:
  static constexpr std::uint32_t kBuckets = 1U << 14;

  EventWheel() : buckets_(kBuckets), chunks_(1), older_(1, kNone) {}

  // Events in all buckets, and in one. Buckets are counted from time 0; as many as the wheel has may hold events.
  std::size_t waiting() const { return waiting_; }
  std::uint32_t count(std::int64_t bucket) const { return buckets_[index_of(bucket)].count; }

  void put(std::int64_t bucket_number, BucketEvent event) {
    const std::uint32_t index = index_of(bucket_number);
    Bucket& bucket = buckets_[index];
    const std::uint32_t place = bucket.count++ % kOfChunk;
    if (place == 0) add_chunk(index);
    chunks_[bucket.head][place] = event;
    ++waiting_;
  }

  // The first bucket after another that is not empty. There is one.
  std::int64_t next_after(std::int64_t bucket) const {
    const std::uint32_t index = next_filled(index_of(bucket + 1));
    return bucket + static_cast<std::int64_t>((index - static_cast<std::uint64_t>(bucket)) & (kBuckets - 1));
  }
  // Take all events out of a bucket, in the order in which they were put there. There is room for them at `to`.
  void take(std::int64_t bucket_number, BucketEvent* to) {
    const std::uint32_t index = index_of(bucket_number);
    filled_[index / kBits] &= ~(std::uint64_t{1} << index % kBits);
    Bucket& bucket = buckets_[index];
    waiting_ -= bucket.count;
    // The latest chunk comes first.
    for (std::uint32_t left = bucket.count; left > 0;) {
      const std::uint32_t id = bucket.head;
      const std::uint32_t count = (left - 1) % kOfChunk + 1;
      left -= count;
      std::copy_n(chunks_[id].begin(), count, to + left);
      bucket.head = older_[id];
      older_[id] = free_;
      free_ = id;
    }
    bucket.count = 0;
  }

  // Prefetch the two buckets after one.
  void look_ahead(std::int64_t bucket) {
    if (waiting_ == 0) return;
    const std::uint32_t next = next_filled(index_of(bucket + 1));
    soon_ = std::min(buckets_[next].count, kOfChunk);
    next_chunk_ = oldest_chunk(buckets_[next]);
    const Bucket& later = buckets_[next_filled((next + 1) % kBuckets)];
    const Chunk& chunk = chunks_[oldest_chunk(later)];
    for (std::uint32_t place = 0; place < std::min(later.count, kOfChunk); place += 64 / sizeof(BucketEvent)) {
      __builtin_prefetch(&chunk[place]);
    }
  }
  // Once after each `look_ahead`: events of the first of these buckets, some of them. Else none.
  std::span<const BucketEvent> soon() {
    const std::uint32_t count = soon_;
    soon_ = 0;
    return {chunks_[next_chunk_].data(), count};
  }

  // Calls visit(bucket, event) for all; `first` is the first bucket that may have any.
  template <class Visit>
  void each(std::int64_t first, Visit visit) const;
  void clear();

 private:
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::uint32_t kOfChunk = 16;

  // Events of a bucket are partly together, so that all are prefetched at once before its turn.
  using Chunk = std::array<BucketEvent, kOfChunk>;
  struct Bucket {
    std::uint32_t head = kNone;  // the newest chunk
    std::uint32_t count = 0;     // of events
  };

  static std::uint32_t index_of(std::int64_t bucket) { return static_cast<std::uint32_t>(bucket & (kBuckets - 1)); }

  // A chunk without events becomes the first of a bucket.
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
  std::uint32_t oldest_chunk(const Bucket& bucket) const {
    std::uint32_t id = bucket.head;
    for (std::uint32_t count = bucket.count; count > kOfChunk; count -= kOfChunk) id = older_[id];
    return id;
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

  std::vector<Bucket> buckets_;
  std::array<std::uint64_t, kBuckets / kBits> filled_{};
  LargeArray<Chunk> chunks_;
  std::vector<std::uint32_t> older_;  // of each chunk the next of its bucket, or of those that are free
  std::uint32_t free_ = 0;
  std::uint32_t soon_ = 0;  // events of the next bucket, in one of its chunks, until they are asked for
  std::uint32_t next_chunk_ = 0;
  std::size_t waiting_ = 0;
};

template <class Visit>
void EventWheel::each(std::int64_t first, Visit visit) const {
  for (std::uint32_t word = 0; word < filled_.size(); ++word) {
    for (std::uint64_t bits = filled_[word]; bits != 0; bits &= bits - 1) {
      const std::uint32_t index = word * kBits + static_cast<std::uint32_t>(std::countr_zero(bits));
      const std::int64_t bucket = first + ((index - first) & (kBuckets - 1));
      std::uint32_t left = buckets_[index].count;
      for (std::uint32_t id = buckets_[index].head; left > 0; id = older_[id]) {
        const std::uint32_t count = (left - 1) % kOfChunk + 1;
        for (std::uint32_t place = 0; place < count; ++place) visit(bucket, chunks_[id][place]);
        left -= count;
      }
    }
  }
}

inline void EventWheel::clear() {
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  filled_.fill(0);
  chunks_.resize(1);
  older_.assign(1, kNone);
  free_ = soon_ = next_chunk_ = 0;
  waiting_ = 0;
}

}  // namespace astra::roce
