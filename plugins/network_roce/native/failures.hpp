// Links that fail at times of the plan: packets on them are lost, and messages go other ways where there are any.
#pragma once

#include <cstdint>
#include <vector>

#include "parts.hpp"
#include "settings.hpp"
#include "types.hpp"

namespace astra::roce {

class Failures {
 public:
  // All are events from now on, with a number as subject.
  explicit Failures(Parts& parts);

  // Those that have not happened.
  std::uint64_t left() const { return left_; }
  // Throws Deadlock where a message that is under way has no way left.
  void happen(std::uint32_t number);

 private:
  // The links between two nodes fail. Returns by link whether it is up.
  std::vector<bool> cut(const Failure& failure);
  // A queue pair of a link that has failed goes to another, if its message is under way; so does an acknowledgement, or it is lost.
  void move_pair(FlowId id);
  void move_ack(PacketId id);

  Parts& parts_;
  std::uint64_t left_ = 0;
};

}  // namespace astra::roce
