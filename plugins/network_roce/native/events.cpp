#include "events.hpp"

namespace astra::roce {

bool Events::look_further() {
  if (place_ == end_ && late_.empty() && waiting_ > 0) open_next();
  source_ = Source::turn;
  const bool any = place_ < end_ || !late_.empty();
  if (any) {
    if (!late_.empty() && late_.front().key < turn_[place_].key) source_ = Source::late;
    first_ = source_ == Source::late ? late_.front() : turn_[place_];
    first_time_ = time_of(base_, first_.key);
  }
  if (far_.empty()) return !any;
  const Event& far = far_.front();
  if (any && !later(event_of(base_, first_), far)) return false;
  first_ = {far.order, {far.what, far.subject, far.link}};
  first_time_ = far.time;
  source_ = Source::far;
  return false;
}

void Events::take_out() {
  if (source_ == Source::late) {
    std::pop_heap(late_.begin(), late_.end(), comes_after);
    late_.pop_back();
  } else {
    std::pop_heap(far_.begin(), far_.end(), later);
    far_.pop_back();
    if (place_ == end_ && late_.empty()) begin_bucket(first_time_ >> shift_);  // the wheel is empty
  }
  source_ = Source::turn;
  set_limit();
}

void Events::put_aside(Tick time, Entry entry) {
  const std::int64_t bucket = time >> shift_;
  if (bucket - (now_ >> shift_) >= kBuckets) {
    far_.push_back({time, entry.key & kOrders, entry.thing.subject(), entry.thing.link(), entry.thing.what()});
    std::push_heap(far_.begin(), far_.end(), later);
    return set_limit();
  }
  if (bucket < bucket_) close();
  bucket == bucket_ ? put_in_turn(entry) : put(bucket, entry);
}

std::vector<Event> Events::all() const {
  std::vector<Event> events(far_);
  const auto add = [&](std::int64_t bucket, const Entry& entry) { events.push_back(event_of(bucket << shift_, entry)); };
  for (std::size_t place = place_; place < end_; ++place) add(bucket_, turn_[place]);
  for (const Entry& entry : late_) add(bucket_, entry);
  const std::int64_t first = now_ >> shift_;
  for (std::uint32_t word = 0; word < filled_.size(); ++word) {
    for (std::uint64_t bits = filled_[word]; bits != 0; bits &= bits - 1) {
      const std::uint32_t index = word * kBits + static_cast<std::uint32_t>(std::countr_zero(bits));
      const std::int64_t bucket = first + ((index - first) & (kBuckets - 1));
      std::uint32_t left = buckets_[index].count;
      for (std::uint32_t id = buckets_[index].head; left > 0; id = older_[id]) {
        const std::uint32_t count = (left - 1) % kOfChunk + 1;
        for (std::uint32_t place = 0; place < count; ++place) add(bucket, chunks_[id][place]);
        left -= count;
      }
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& one, const Event& other) { return later(other, one); });
  return events;
}

void Events::clear() {
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  filled_.fill(0);
  chunks_.resize(1);
  older_.assign(1, kNone);
  free_ = soon_ = next_chunk_ = 0;
  waiting_ = 0;
  late_.clear();
  far_.clear();
  end_turn();
  begin_bucket(now_ >> shift_);
  set_limit();
}

}  // namespace astra::roce
