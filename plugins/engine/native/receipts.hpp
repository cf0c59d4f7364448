// The receipts of a rank: the state of each of its receives, whichever comes first of the message and of posting the receive.
// Receives are done nearly in the order of their numbers. So they are kept from the first that is not done, in a ring of 2^n
// places.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "ids.hpp"

namespace astra::engine {

// The state of a receive; several flags may be set.
enum ReceiptState : std::uint8_t {
  kArrived = 1,   // the message is there
  kPosted = 2,    // the rank waits for it
  kDone = 4,      // they have met
  kGranted = 8,   // the request has reached the sender (rendezvous)
  kOffered = 16,  // the message waits for the request
};

// A receive of a rank: when it was posted, and its state.
struct Receipt {
  Time& posted_at;
  std::uint8_t& state;
};

class Receipts {
 public:
  Receipts() = default;
  Receipts(const Receipts&) = delete;
  Receipts& operator=(const Receipts&) = delete;
  ~Receipts() {
    if (bits_ > kInside) delete[] outside_;
  }

  // Valid until the next call.
  Receipt at(ReceiptId id) {
    if (id - first_ >= capacity()) make_room(id);
    const ReceiptId place = id & (capacity() - 1);
    return {posted_at()[place], states()[place]};
  }

  // A receive has its message: forget it, and those that follow if they are done.
  void done(ReceiptId id) {
    const Receipt receipt = at(id);
    receipt.state |= kDone;
    if (id != first_) return;
    std::uint8_t* const all = states();
    const std::uint32_t mask = capacity() - 1;
    ReceiptId next = id;
    do all[next++ & mask] = 0;
    while (all[next & mask] & kDone);
    first_ = next;
  }

  // Call a function for each receive that waits for its message.
  template <typename Function>
  void each_posted(Function function) const {
    for (ReceiptId id = first_; id != first_ + capacity(); ++id) {
      if ((states()[id & (capacity() - 1)] & (kPosted | kDone)) == kPosted) function(id);
    }
  }

 private:
  static constexpr std::uint8_t kInside = 1;

  std::uint32_t capacity() const { return std::uint32_t{1} << bits_; }
  Time* posted_at() { return bits_ > kInside ? outside_ : inside_; }
  // Outside, they are behind the times.
  std::uint8_t* states() { return bits_ > kInside ? reinterpret_cast<std::uint8_t*>(outside_ + capacity()) : states_; }
  const std::uint8_t* states() const { return const_cast<Receipts*>(this)->states(); }

  // Apart, so that the way that is taken nearly always is short.
  [[gnu::noinline, gnu::cold]] void make_room(ReceiptId id) {
    if (id < first_) throw std::logic_error("a receive was met twice");
    std::uint8_t bits = bits_;
    while ((id - first_) >> bits) ++bits;
    const std::uint32_t room = std::uint32_t{1} << bits, mask = room - 1, before = capacity() - 1;
    Time* const larger = new Time[room + (room + sizeof(Time) - 1) / sizeof(Time)]();
    for (ReceiptId each = first_; each != first_ + capacity(); ++each) {
      larger[each & mask] = posted_at()[each & before];
      reinterpret_cast<std::uint8_t*>(larger + room)[each & mask] = states()[each & before];
    }
    if (bits_ > kInside) delete[] outside_;
    outside_ = larger;
    bits_ = bits;
  }

  ReceiptId first_ = 0;
  std::uint8_t bits_ = kInside;  // of the places, 2^n
  std::uint8_t states_[1 << kInside] = {};
  union {
    Time inside_[1 << kInside] = {};
    Time* outside_;
  };
};

}  // namespace astra::engine
