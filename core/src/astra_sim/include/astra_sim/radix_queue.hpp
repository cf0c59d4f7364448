// A queue of future events, by time: for engines and networks that simulate events (C++20).
//
// The compiled engine, the analytical networks and flow have their events here. Others give the reason in their header: events that change
// their time or are cancelled (the ends of flows, the timers of TCP in ns-3) are in heaps, roce has a wheel, packet a calendar.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) whose digits have six bits. Time only goes on, so an event is compared with a time
// before all future ones, and is in the list of the highest digit in which the two differ, and of that digit's value. The lowest
// list that is not empty holds the next events. If they are of one time they are taken as they are; if they are few they become the front,
// which is sorted; else they are spread over the lists below. Nothing is read when an event is added to a list but its end, and all is read
// and written in order. An event moves at most once for each digit.
//
// An event added for a time that the front covers is inserted there, and a front that grows too long goes back into the lists. So a queue
// of few events is a sorted array, and the times of many decide only how far down their lists go: how to sort a few of them does not
// branch.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace astra {

// `Event` has a member `time`, which is not negative, and can be copied byte by byte. Events of the same time come in the order in which
// they were added. An `Event` may have a function `bool absorb(const Event& next)`: it is asked whether the event that comes next to it
// becomes part of it; it may refuse.
template <class Event>
class RadixQueue {
 public:
  bool empty() const { return occupied_ == 0 && front_.empty(); }

  // Add Event{time, others...}. No time may be before that of the events taken last. Returns the event, or that of which it became part; it
  // stays there until another is added, or events are taken.
  template <class... Others>
  Event& push(std::int64_t time, const Others&... others) {
    if (time <= covered_) {
      if (!front_.empty() && !front_.full()) return front_.insert(Event{time, others...});
      give_back_front();
    }
    if (time < next_ && next_ != kUnknown) next_ = time;
    return add(time, time, others...);
  }

  // When the next event happens; there is one.
  std::int64_t next_time() {
    if (!front_.empty()) return front_.next().time;
    if (next_ != kUnknown) return next_;
    const List& list = lowest();
    if (is_few(list)) {
      load_front();
      return front_.next().time;
    }
    return next_ = earliest(list);
  }

  // Take the events of the next time, if it is only one; there is one. It stays where it is until another is added. nullptr: there are
  // several, or they are not sorted yet.
  const Event* take_one() { return front_.is_one() ? &front_.take() : nullptr; }

  // Call a function for each event of the next time, in order; there is one. It adds none.
  template <class Function>
  void take(Function function) {
    while (front_.empty()) {
      next_ = kUnknown;
      const List& list = lowest();
      if (is_few(list)) {
        load_front();
      } else if (list.is_mixed()) {
        spread();
      } else {
        last_ = list.time;
        each_event(take_lowest(), function);
        return give_up_blocks();
      }
    }
    const std::int64_t time = front_.next().time;
    while (!front_.empty() && front_.next().time == time) function(front_.take());
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MAX;
  static constexpr unsigned kDigit = 6;  // bits
  static constexpr unsigned kDigits = 11;
  static constexpr std::size_t kFew = 16;    // events of a list that are not spread
  static constexpr std::size_t kFront = 24;  // events of the longest front
  static constexpr std::size_t kBlockBytes = 512;
  static constexpr std::size_t kEvents = (kBlockBytes - sizeof(void*)) / sizeof(Event);  // of a block
  static constexpr std::size_t kBlocks = 32;                                             // that are allocated together
  static constexpr std::size_t kKept = 64;                                               // times as many stay when all lists are empty

  // Some events of a list, in order. A list is of blocks, so that it grows without moving, and its released blocks serve another.
  struct Block {
    Block* next;
    std::array<Event, kEvents> events;
  };

  struct List {
    Block* first = nullptr;
    Block* last = nullptr;
    Event* end = nullptr;     // of the events of the last block
    std::int64_t time = 0;    // of the first event
    std::int64_t differ = 0;  // the bits in which times differ from it

    bool is_mixed() const { return differ != 0; }
  };

  // The lists of a digit, and a bit for each that is not empty.
  struct Digit {
    std::uint64_t occupied = 0;
    std::array<List, std::size_t{1} << kDigit> lists;
  };

  // The next events of all, sorted.
  class Front {
   public:
    bool empty() const { return begin_ == end_; }
    bool full() const { return end_ - begin_ == kFront; }
    // Whether the next event is there, and no other of its time.
    bool is_one() const { return begin_ != end_ && (end_ - begin_ == 1 || events_[begin_].time != events_[begin_ + 1].time); }
    const Event& next() const { return events_[begin_]; }
    const Event& take() { return events_[begin_++]; }

    // Sort these events into the empty front. How many are before another is counted for each pair, so that no branch depends on times.
    void fill(const Event* const* events, std::size_t count) {
      std::array<std::uint32_t, kFew> places{};
      for (std::size_t later = 1; later < count; ++later) {
        const std::int64_t time = events[later]->time;
        std::uint32_t before = 0;
        for (std::size_t earlier = 0; earlier < later; ++earlier) {
          const std::uint32_t is_before = events[earlier]->time <= time;
          before += is_before;
          places[earlier] += 1 - is_before;
        }
        places[later] = before;
      }
      for (std::size_t event = 0; event < count; ++event) events_[places[event]] = *events[event];
      begin_ = 0;
      end_ = count;
    }

    Event& insert(const Event& event) {
      if (end_ == kRoom) shift();
      std::size_t place = end_;
      while (place != begin_ && event.time < events_[place - 1].time) --place;
      if constexpr (requires(Event& before) { before.absorb(event); }) {
        if (place != begin_ && events_[place - 1].absorb(event)) return events_[place - 1];
      }
      for (std::size_t each = end_++; each != place; --each) events_[each] = events_[each - 1];
      return events_[place] = event;
    }

    template <class Function>
    void give_back(Function function) {
      for (; begin_ != end_; ++begin_) function(events_[begin_]);
    }

   private:
    static constexpr std::size_t kRoom = 2 * kFront;

    void shift() {
      std::size_t place = 0;
      while (begin_ != end_) events_[place++] = events_[begin_++];
      begin_ = 0;
      end_ = place;
    }

    std::size_t begin_ = 0, end_ = 0;
    std::array<Event, kRoom> events_;
  };

  List& lowest() {
    Digit& digit = digits_[static_cast<std::size_t>(std::countr_zero(occupied_))];
    return digit.lists[static_cast<std::size_t>(std::countr_zero(digit.occupied))];
  }

  bool is_few(const List& list) const {
    if (list.first == list.last) return list.end - list.first->events.data() <= static_cast<std::ptrdiff_t>(kFew);
    if (list.first->next != list.last) return false;
    return kEvents + static_cast<std::size_t>(list.end - list.last->events.data()) <= kFew;
  }

  // Add Event{members...}, which is of `time`, made where it stays: at the end of its list.
  template <class... Members>
  Event& add(std::int64_t time, const Members&... members) {
    const auto differ = static_cast<std::uint64_t>(time ^ last_);
    const unsigned place = static_cast<unsigned>(std::bit_width(differ | 1) - 1) / kDigit;
    const auto value = static_cast<unsigned>(time >> place * kDigit) & ((1u << kDigit) - 1);
    Digit& digit = digits_[place];
    List& list = digit.lists[value];
    if (!list.first) {
      list.first = list.last = take_block();
      list.end = list.last->events.data();
      list.time = time;
      digit.occupied |= std::uint64_t{1} << value;
      occupied_ |= 1u << place;
    } else if (list.end == list.last->events.data() + kEvents) {
      list.last = list.last->next = take_block();
      list.end = list.last->events.data();
    }
    list.differ |= time ^ list.time;
    Event* added = ::new (static_cast<void*>(list.end)) Event{members...};
    if constexpr (requires { added->absorb(*added); }) {
      if (added != list.last->events.data() && added[-1].absorb(*added)) return added[-1];
    }
    ++list.end;
    return *added;
  }

  // The first time that belongs to the lowest list, and the last.
  std::pair<std::int64_t, std::int64_t> range_of_lowest() const {
    const auto place = static_cast<unsigned>(std::countr_zero(occupied_));
    const auto value = static_cast<std::int64_t>(std::countr_zero(digits_[place].occupied));
    const unsigned low = place * kDigit, high = low + kDigit;
    const std::int64_t above = high < 63 ? last_ >> high << high : 0;
    const std::int64_t first = above | value << low;
    return {first, first | ((std::int64_t{1} << low) - 1)};
  }

  // Make a front of the lowest list.
  void load_front() {
    covered_ = range_of_lowest().second;
    std::array<const Event*, kFew> events;
    std::size_t count = 0;
    each_event(take_lowest(), [&](const Event& event) { events[count++] = &event; });
    front_.fill(events.data(), count);
    give_up_blocks();
  }

  // Put the events of the front back into lists.
  void give_back_front() {
    covered_ = -1;
    if (front_.empty()) return;
    next_ = kUnknown;
    front_.give_back([this](const Event& event) { add(event.time, event); });
  }

  // Spread the lowest list, whose events come next, over the lists below.
  void spread() {
    last_ = range_of_lowest().first;
    each_event(take_lowest(), [this](const Event& event) { add(event.time, event); });
  }

  List take_lowest() {
    const auto place = static_cast<unsigned>(std::countr_zero(occupied_));
    Digit& digit = digits_[place];
    const auto value = static_cast<std::size_t>(std::countr_zero(digit.occupied));
    digit.occupied &= digit.occupied - 1;
    if (digit.occupied == 0) occupied_ &= occupied_ - 1;
    return std::exchange(digit.lists[value], List{});
  }

  // Call a function for each event of a list. The blocks are free then, one after another.
  template <class Function>
  void each_event(const List& list, Function function) {
    for (Block* block = list.first; block;) {
      const bool is_last = block == list.last;
      const Event* end = is_last ? list.end : block->events.data() + kEvents;
      for (const Event* event = block->events.data(); event != end; ++event) function(*event);
      Block* next = is_last ? nullptr : block->next;
      block->next = std::exchange(spare_, block);
      block = next;
    }
  }

  static std::int64_t earliest(const List& list) {
    std::int64_t time = list.time;
    if (!list.is_mixed()) return time;
    for (const Block* block = list.first;; block = block->next) {
      const Event* end = block == list.last ? list.end : block->events.data() + kEvents;
      for (const Event* event = block->events.data(); event != end; ++event) time = event->time < time ? event->time : time;
      if (block == list.last) return time;
    }
  }

  Block* take_block() {
    if (!spare_) {
      blocks_.push_back(std::make_unique_for_overwrite<Block[]>(kBlocks));
      for (std::size_t place = 0; place < kBlocks; ++place) blocks_.back()[place].next = std::exchange(spare_, &blocks_.back()[place]);
    }
    return std::exchange(spare_, spare_->next);
  }

  // If no list has events, release blocks of which there are many.
  void give_up_blocks() {
    if (occupied_ || blocks_.size() <= kKept) return;
    blocks_.clear();
    spare_ = nullptr;
  }

  std::int64_t last_ = 0;         // with which events are compared: before all that are to come
  std::int64_t next_ = kUnknown;  // when the next event of the lists happens, if it is known and there is no front
  std::int64_t covered_ = -1;     // events up to this time belong to the front
  Front front_;
  std::uint32_t occupied_ = 0;  // a bit for each digit that has events
  std::array<Digit, kDigits> digits_;
  Block* spare_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> blocks_;
};

}  // namespace astra
