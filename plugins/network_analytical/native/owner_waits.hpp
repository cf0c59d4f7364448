// Loads of links by the owner of the sending NPU, and for how long messages of one owner waited for those of another.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace astra::analytical {

// Links are numbered from 0 on. Owners of NPUs are numbers below `count`; without owners nothing is counted.
//
// A link sends one message after another and is busy while one waits. So a message that comes while another is sent waits for the rest
// of that one and for all that are in the queue already, and its wait is divided among their owners when it comes.
class OwnerWaits {
 public:
  // Of a link by owner: bytes, picoseconds in which it was busy, and by owner and owner the picoseconds that the first waited for the
  // second.
  using Loads = std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>, std::vector<std::int64_t>>;

  OwnerWaits(std::vector<std::uint8_t> owners, std::size_t count) : owners_(std::move(owners)), count_(count) {}

  bool counts() const { return count_ > 0; }
  std::uint8_t owner_of(std::int32_t npu) const { return counts() ? owners_[static_cast<std::size_t>(npu)] : 0; }

  // A message joins the queue of a link whose current message needs `left` picoseconds more, and its own transfer will take `transfer`.
  void wait(std::uint32_t number, std::uint8_t owner, std::int64_t left, std::int64_t transfer) {
    Link& link = at(number);
    link.wait[owner * count_ + link.sending] += left;
    for (std::size_t other = 0; other < count_; ++other) link.wait[owner * count_ + other] += link.queued[other];
    link.queued[owner] += transfer;
  }

  // The message at the head of the queue of a link leaves it.
  void leave(std::uint32_t number, std::uint8_t owner, std::int64_t transfer) { at(number).queued[owner] -= transfer; }

  // A transfer begins.
  void start(std::uint32_t number, std::uint8_t owner, std::int64_t bytes, std::int64_t transfer) {
    Link& link = at(number);
    link.sending = owner;
    link.bytes[owner] += bytes;
    link.busy[owner] += transfer;
  }

  Loads loads(std::uint32_t number) {
    const Link& link = at(number);
    return {link.bytes, link.busy, link.wait};
  }

 private:
  struct Link {
    std::size_t sending = 0;
    std::vector<std::int64_t> bytes, busy, queued, wait;
  };

  Link& at(std::uint32_t number) {
    if (number >= links_.size()) links_.resize(number + 1);
    Link& link = links_[number];
    if (link.bytes.empty()) {
      link.bytes.resize(count_);
      link.busy.resize(count_);
      link.queued.resize(count_);
      link.wait.resize(count_ * count_);
    }
    return link;
  }

  std::vector<std::uint8_t> owners_;
  std::size_t count_;
  std::vector<Link> links_;
};

}  // namespace astra::analytical
