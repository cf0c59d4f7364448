// A queue of what is to come, by time: for engines and networks that simulate events (C++20).
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990). Time only goes on, so an event is compared with the time of the last one that was
// taken, and lies in the list of the highest bit in which the two differ. The lowest list that is not empty holds the next events. If they
// are all of one time they are taken as they are, else they are spread over the lists below. Nothing is read when an event is added but
// the end of its list, and all is read and written in order. An event moves at most once for each bit, and on average by half of the
// logarithm of how many wait.
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

// `Event` has a member `time`, which is not negative. Events of the same time come in the order in which they were added. An `Event` may have
// a function `bool absorb(const Event& next)`: it is asked whether an event that comes next to it in a list becomes part of it.
template <class Event>
class RadixQueue {
 public:
  bool empty() const { return occupied_ == 0; }

  // Add Event{time, others...}. No time may be before that of the events taken last. Returns the event, or that of which it became part; it
  // stays there until events are taken.
  template <class... Others>
  Event& push(std::int64_t time, const Others&... others) {
    if (time < next_ && (next_ != kUnknown || empty())) next_ = time;
    return add(Event{time, others...});
  }

  // When the next event happens; there is one.
  std::int64_t next_time() {
    if (next_ == kUnknown) next_ = earliest(lists_[lowest()]);
    return next_;
  }

  // Call a function for each event of the next time, in order; there is one. What it adds for that time comes with the next call.
  template <class Function>
  void take(Function function) {
    last_ = next_time();
    if (lists_[lowest()].is_mixed()) {
      const List mixed = take_list(lowest());
      each_block(mixed, [this](const Event* begin, const Event* end) {
        for (; begin != end; ++begin) add(*begin);
      });
    }
    next_ = kUnknown;
    const List list = take_list(lowest());
    each_block(list, [&function](const Event* begin, const Event* end) {
      for (; begin != end; ++begin) function(*begin);
    });
    if (empty() && blocks_.size() > kKept) {
      blocks_.clear();
      spare_ = nullptr;
    }
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MAX;
  static constexpr std::size_t kBlockBytes = 1024;
  static constexpr std::size_t kEvents = (kBlockBytes - sizeof(void*)) / sizeof(Event);  // of a block
  static constexpr std::size_t kBlocks = 16;                                             // that are allocated together
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

  unsigned lowest() const { return static_cast<unsigned>(std::countr_zero(occupied_)); }

  // Add an event at the end of its list.
  Event& add(const Event& event) {
    const auto number = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(event.time ^ last_)));
    List& list = lists_[number];
    if (!list.first) {
      list.first = list.last = take_block();
      list.end = list.last->events.data();
      list.time = event.time;
      occupied_ |= std::uint64_t{1} << number;
    } else {
      if constexpr (requires { list.end->absorb(event); }) {
        if (list.end[-1].absorb(event)) return list.end[-1];
      }
      if (list.end == list.last->events.data() + kEvents) {
        list.last = list.last->next = take_block();
        list.end = list.last->events.data();
      }
    }
    list.differ |= event.time ^ list.time;
    return *::new (static_cast<void*>(list.end++)) Event(event);
  }

  List take_list(unsigned number) {
    occupied_ &= ~(std::uint64_t{1} << number);
    return std::exchange(lists_[number], List{});
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

  std::int64_t last_ = 0;         // the time of the events taken last
  std::int64_t next_ = kUnknown;  // that of the next event, where it is known
  std::uint64_t occupied_ = 0;    // a bit for each list that is not empty
  std::array<List, 65> lists_;    // by how many bits there are up to the highest in which times differ from last_
  Block* spare_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> blocks_;
};

}  // namespace astra
