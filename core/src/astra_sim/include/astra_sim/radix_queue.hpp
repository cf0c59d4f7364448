// A queue of what is to come, by time: for engines and networks that simulate events (C++20).
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990). Time only goes on, so an event is compared with the time of the last one that was
// taken, and lies in the list of the highest bit in which the two differ. The lowest list that is not empty holds the next events: it is
// spread over the lists below it when they are asked for. Nothing is read when an event is added but the end of its list, and all is read
// and written in order. An event moves at most once for each bit, and on average by half of the logarithm of how many wait.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace astra {

// `Event` has a member `time`, which is not negative. Events of the same time come in the order in which they were added.
template <class Event>
class RadixQueue {
 public:
  bool empty() const { return occupied_ == 0; }

  // No time may be before that of the event taken last.
  void push(const Event& event) {
    if (event.time < next_ && (next_ != kUnknown || empty())) next_ = event.time;
    append(event);
  }

  // When the next event happens; there is one.
  std::int64_t next_time() {
    if (next_ == kUnknown) {
      const List& list = lists_[lowest()];
      each(list, [this](const Event& event) { next_ = event.time < next_ ? event.time : next_; });
    }
    return next_;
  }

  // Take the next event; there is one.
  Event pop() {
    if ((occupied_ & 1) == 0) spread();
    List& list = lists_[0];
    Block* block = list.first;
    const Event event = block->events[taken_++];
    if (taken_ == block->count) {
      taken_ = 0;
      list.first = block->next;
      give_back(block);
      if (!list.first) {
        occupied_ &= ~std::uint64_t{1};
        next_ = kUnknown;
      }
    }
    return event;
  }

 private:
  static constexpr std::int64_t kUnknown = INT64_MAX;
  static constexpr std::size_t kBlockBytes = 1024;
  static constexpr std::size_t kEvents = (kBlockBytes - 16) / sizeof(Event);  // of a block
  static constexpr std::size_t kBlocks = 16;                                  // that are allocated together

  // Some events of a list, in order. A list is of blocks, so that it grows without moving, and what it gives up serves another.
  struct Block {
    Block* next;
    std::uint32_t count;
    std::array<Event, kEvents> events;
  };

  struct List {
    Block* first = nullptr;
    Block* last = nullptr;
  };

  unsigned lowest() const { return static_cast<unsigned>(std::countr_zero(occupied_)); }

  void append(const Event& event) {
    const auto number = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(event.time ^ last_)));
    List& list = lists_[number];
    if (!list.first) {
      list.first = list.last = take_block();
      occupied_ |= std::uint64_t{1} << number;
    } else if (list.last->count == kEvents) {
      list.last->next = take_block();
      list.last = list.last->next;
    }
    list.last->events[list.last->count++] = event;
  }

  // The next events come to the front: into list 0, which is empty.
  void spread() {
    last_ = next_time();
    const unsigned number = lowest();
    const List list = std::exchange(lists_[number], List{});
    occupied_ &= ~(std::uint64_t{1} << number);
    for (Block* block = list.first; block;) {
      for (std::uint32_t place = 0; place < block->count; ++place) append(block->events[place]);
      give_back(std::exchange(block, block->next));
    }
  }

  template <class Function>
  static void each(const List& list, Function function) {
    for (const Block* block = list.first; block; block = block->next) {
      for (std::uint32_t place = 0; place < block->count; ++place) function(block->events[place]);
    }
  }

  Block* take_block() {
    if (!spare_) {
      blocks_.push_back(std::make_unique_for_overwrite<Block[]>(kBlocks));
      for (std::size_t place = 0; place < kBlocks; ++place) give_back(&blocks_.back()[place]);
    }
    Block* block = std::exchange(spare_, spare_->next);
    block->next = nullptr;
    block->count = 0;
    return block;
  }

  void give_back(Block* block) { block->next = std::exchange(spare_, block); }

  std::int64_t last_ = 0;         // the time of the event taken last
  std::int64_t next_ = kUnknown;  // that of the next event, where it is known
  std::uint64_t occupied_ = 0;    // a bit for each list that is not empty
  std::uint32_t taken_ = 0;       // events of the first block of list 0
  std::array<List, 64> lists_;    // by the number of bits from the highest down in which times differ from last_
  Block* spare_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> blocks_;
};

}  // namespace astra
