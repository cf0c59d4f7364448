// A queue of what is to come, by time: for engines and networks that simulate events (C++20).
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) whose digits have six bits. Time only goes on, so an event is compared with the time
// of the last one that was taken, and lies in the list of the highest digit in which the two differ, and of what that digit is. The lowest
// list that is not empty holds the next events. If they are all of one time they are taken as they are, else the others are spread over the
// lists below. Nothing is read when an event is added but the end of its list, and all is read and written in order. An event moves at most
// once for each digit.
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

// `Event` has a member `time`, which is not negative. Events of the same time come in the order in which they were added. An `Event` may
// have a function `bool absorb(const Event& next)`: it is asked whether the event that comes next to it in a list becomes part of it; it
// may say no.
template <class Event>
class RadixQueue {
 public:
  bool empty() const { return occupied_ == 0; }

  // Add Event{time, others...}. No time may be before that of the events taken last. Returns the event, or that of which it became part; it
  // stays there until events are taken.
  template <class... Others>
  Event& push(std::int64_t time, const Others&... others) {
    if (time < next_ && (next_ != kUnknown || empty())) next_ = time;
    return add(time, time, others...);
  }

  // When the next event happens; there is one.
  std::int64_t next_time() {
    if (next_ == kUnknown) next_ = earliest(lowest());
    return next_;
  }

  // Call a function for each event of the next time, in order; there is one. What it adds for that time comes with the next call.
  template <class Function>
  void take(Function function) {
    const std::int64_t time = next_time();
    List& list = lowest();
    if (list.is_mixed() && list.first == list.last && list.end - list.first->events.data() <= kFew) {
      take_few(list, time, function);
    } else {
      take_all(time, function);
    }
    if (empty() && blocks_.size() > kKept) {
      blocks_.clear();
      spare_ = nullptr;
    }
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MAX;
  static constexpr unsigned kDigit = 6;  // bits
  static constexpr unsigned kDigits = 11;
  static constexpr std::ptrdiff_t kFew = 4;  // events of a list that are not spread
  static constexpr std::size_t kBlockBytes = 512;
  static constexpr std::size_t kEvents = (kBlockBytes - sizeof(void*)) / sizeof(Event);  // of a block
  static constexpr std::size_t kBlocks = 32;                                             // that are allocated together
  static constexpr std::size_t kKept = 64;                                               // times so many that stay when the queue is empty

  // Some events of a list, in order. A list is of blocks, so that it grows without moving, and what it gives up serves another.
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

  List& lowest() {
    Digit& digit = digits_[static_cast<std::size_t>(std::countr_zero(occupied_))];
    return digit.lists[static_cast<std::size_t>(std::countr_zero(digit.occupied))];
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

  // Take the events of the lowest list that are of a time, and spread the others.
  template <class Function>
  void take_all(std::int64_t time, Function function) {
    last_ = time;
    next_ = kUnknown;
    const List list = take_lowest();
    if (!list.is_mixed()) {
      each_block(list, [&function](const Event* begin, const Event* end) {
        for (; begin != end; ++begin) function(*begin);
      });
      return;
    }
    due_.clear();
    each_block(list, [this](const Event* begin, const Event* end) {
      for (; begin != end; ++begin) begin->time == last_ ? due_.push_back(*begin) : void(add(begin->time, *begin));
    });
    for (const Event& event : due_) function(event);
  }

  // The same for the lowest list where it has few events. The others stay where they are, so the time with which events are compared does,
  // too.
  template <class Function>
  void take_few(List& list, std::int64_t time, Function function) {
    due_.clear();
    Event* kept = list.first->events.data();
    next_ = kUnknown;
    for (Event* event = kept; event != list.end; ++event) {
      if (event->time == time) {
        due_.push_back(*event);
        continue;
      }
      next_ = event->time < next_ ? event->time : next_;
      if (kept != event) *kept = *event;
      ++kept;
    }
    list.end = kept;
    if (kept == list.first->events.data()) {
      list.first->next = std::exchange(spare_, list.first);
      take_lowest();
    }
    for (const Event& event : due_) function(event);
  }

  List take_lowest() {
    const auto place = static_cast<unsigned>(std::countr_zero(occupied_));
    Digit& digit = digits_[place];
    const auto value = static_cast<std::size_t>(std::countr_zero(digit.occupied));
    digit.occupied &= digit.occupied - 1;
    if (digit.occupied == 0) occupied_ &= occupied_ - 1;
    return std::exchange(digit.lists[value], List{});
  }

  // Call a function for the events of each block, whose blocks are free then.
  template <class Function>
  void each_block(const List& list, Function function) {
    for (Block* block = list.first; block;) {
      const bool is_last = block == list.last;
      function(block->events.data(), is_last ? list.end : block->events.data() + kEvents);
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

  std::int64_t last_ = 0;         // the time of the events taken last, or one before it from which all that are left differ alike
  std::int64_t next_ = kUnknown;  // that of the next event, where it is known
  std::uint32_t occupied_ = 0;    // a bit for each digit that has events
  std::array<Digit, kDigits> digits_;
  std::vector<Event> due_;  // those that are taken, out of a list of several times
  Block* spare_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> blocks_;
};

}  // namespace astra
