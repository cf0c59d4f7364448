#include "events.hpp"

#include <algorithm>

namespace astra::roce {
namespace {

bool is_later(const Event& one, const Event& other) { return one.is_later(other); }

}  // namespace

bool Events::look_further() {
  if (turn_.empty() && wheel_.waiting() > 0) open_next();
  source_ = Source::turn;
  const bool any = !turn_.empty();
  if (any) {
    if (turn_.has_late() && turn_.late().key < turn_.next().key) source_ = Source::late;
    first_ = source_ == Source::late ? turn_.late() : turn_.next();
    first_time_ = first_.time(base_);
  }
  if (far_.empty()) return !any;
  const Event& far = far_.front();
  if (any && !first_.event(base_).is_later(far)) return false;
  first_ = {far.order, {far.what, far.subject, far.link}};
  first_time_ = far.time;
  source_ = Source::far;
  return false;
}

void Events::take_out() {
  if (source_ == Source::late) {
    turn_.take_late();
  } else {
    std::pop_heap(far_.begin(), far_.end(), is_later);
    far_.pop_back();
    if (turn_.empty()) begin_bucket(first_time_ >> shift_);  // the wheel is empty
  }
  source_ = Source::turn;
  set_limit();
}

void Events::put_aside(Tick time, BucketEvent event) {
  const std::int64_t bucket = time >> shift_;
  if (bucket - (now_ >> shift_) >= EventWheel::kBuckets) {
    far_.push_back({time, event.order(), event.thing.subject(), event.thing.link(), event.thing.what()});
    std::push_heap(far_.begin(), far_.end(), is_later);
    return set_limit();
  }
  if (bucket < bucket_) close();
  if (bucket != bucket_) return wheel_.put(bucket, event);
  if (turn_.put(event)) set_limit();
}

std::vector<Event> Events::all() const {
  std::vector<Event> events(far_);
  const auto add = [&](std::int64_t bucket, const BucketEvent& event) { events.push_back(event.event(bucket << shift_)); };
  turn_.each([&](const BucketEvent& event) { add(bucket_, event); });
  wheel_.each(now_ >> shift_, add);
  std::sort(events.begin(), events.end(), [](const Event& one, const Event& other) { return other.is_later(one); });
  return events;
}

void Events::clear() {
  wheel_.clear();
  turn_.clear();
  far_.clear();
  begin_bucket(now_ >> shift_);
  set_limit();
}

}  // namespace astra::roce
