#include "shared_bus.hpp"

namespace astra {
namespace {

constexpr int kBurst = 8;  // transfers a side may send before it lets the other side go first
constexpr double kInnerGapPerByte = 0.0038;

// Whole nanoseconds, as many as fit.
std::int64_t whole(double nanoseconds) { return nanoseconds < 9e18 ? static_cast<std::int64_t>(nanoseconds) : INT64_MAX; }

}  // namespace

SharedBus::SharedBus(const BusOptions& options, BusHost& host, std::uint32_t npu) : options_(options), host_(host), npu_(npu) {}

void SharedBus::carry(bool to_npu, std::int64_t bytes, bool reduced, bool returned, const Carried& credit) {
  request(to_npu ? 1 : 0, make({bytes, reduced, returned, done, 0, credit}));
}

void SharedBus::call(std::uint32_t number) {
  const std::uint32_t side = number / 3;
  switch (number % 3) {
    case sent:
      return on_sent(side);
    case received:
      return on_received(side);
    default:
      return on_reduced(side);
  }
}

std::uint32_t SharedBus::make(const Transfer& transfer) {
  if (unused_.empty()) {
    transfers_.push_back(transfer);
    return static_cast<std::uint32_t>(transfers_.size() - 1);
  }
  const std::uint32_t number = unused_.back();
  unused_.pop_back();
  transfers_[number] = transfer;
  return number;
}

double SharedBus::gap_per_byte(std::uint32_t side) const { return side < 2 ? options_.gap_per_byte : kInnerGapPerByte; }

void SharedBus::after(std::int64_t nanoseconds, std::uint32_t side, Call what) { host_.after(nanoseconds, npu_, side * 3 + what); }

// The NPU side first reads a transfer through the inner bus.
void SharedBus::request(std::uint32_t side, std::uint32_t transfer) {
  if (side == 0) {
    const Transfer inner{transfers_[transfer].bytes, false, false, join, transfer, {}};
    request(3, make(inner));
  } else {
    enqueue(side, transfer);
  }
}

void SharedBus::enqueue(std::uint32_t side, std::uint32_t transfer) {
  sides_[side].sends.push_back(transfer);
  attempt(side);
}

// Send the next transfer, if this side is free and it is not the other's turn.
void SharedBus::attempt(std::uint32_t number) {
  Side& side = sides_[number];
  if (side.state != free || side.sends.empty()) return;
  Side& partner = sides_[number ^ 1];
  if (side.burst > kBurst && !partner.sends.empty() && partner.burst <= kBurst) return attempt(number ^ 1);
  std::int64_t wait = options_.overhead;
  if (side.previous == sending) {
    const std::int64_t since = host_.now_ns() - side.last_end;
    wait = options_.overhead + since > options_.gap ? options_.overhead : options_.gap - since;
  }
  const std::uint32_t transfer = side.sends.front();
  side.sends.pop_front();
  receive(number ^ 1, transfer, wait);
  side.state = sending;
  const double gap = gap_per_byte(number);
  const auto bytes = static_cast<double>(transfers_[transfer].bytes - 1);
  after(whole(static_cast<double>(wait) + gap * bytes), number, sent);
}

void SharedBus::on_sent(std::uint32_t number) {
  Side& side = sides_[number];
  side.last_end = host_.now_ns();
  side.previous = side.state;
  side.state = free;
  ++side.burst;
  attempt(number);
}

// A transfer begins to come in.
void SharedBus::receive(std::uint32_t number, std::uint32_t transfer, std::int64_t wait) {
  Side& side = sides_[number];
  side.receives.push_back(transfer);
  side.previous = side.state;
  side.state = receiving;
  side.burst = 0;
  const auto bytes = static_cast<double>(transfers_[transfer].bytes - 1);
  const double time = static_cast<double>(wait) + bytes * gap_per_byte(number) + static_cast<double>(options_.latency) +
                      static_cast<double>(options_.overhead);
  after(whole(time), number, received);
}

void SharedBus::on_received(std::uint32_t number) {
  Side& side = sides_[number];
  side.last_end = host_.now_ns();
  side.previous = side.state;
  if (side.receives.size() == 1) side.state = free;
  const std::uint32_t transfer = side.receives.front();
  side.receives.pop_front();
  if (transfers_[transfer].reduced) {
    transfers_[transfer].reduced = false;
    through_inner(number, transfer, true, reduce);
  } else {
    hand_on(number, transfer);
  }
  attempt(number);
}

// What comes after reception and reduction: back to the other side, or done.
void SharedBus::hand_on(std::uint32_t side, std::uint32_t transfer) {
  if (transfers_[transfer].returned) {
    transfers_[transfer].returned = false;
    through_inner(side, transfer, true, send_back);
  } else {
    through_inner(side, transfer, false, finish);
  }
}

// The NPU side writes to local memory before it goes on.
void SharedBus::through_inner(std::uint32_t side, std::uint32_t transfer, bool returned, Then what) {
  if (side != 0) return then(side, transfer, what);
  const Transfer inner{transfers_[transfer].bytes, false, returned, what, transfer, {}};
  request(2, make(inner));
}

void SharedBus::then(std::uint32_t side, std::uint32_t transfer, Then what) {
  if (what == reduce) {
    sides_[side].reductions.push_back(transfer);
    start_reduction(side);
  } else if (what == send_back) {
    sides_[side].sends.push_back(transfer);
  } else {
    finished(transfer);
  }
}

// A transfer has been carried: a credit, or (on the inner bus) what the NPU side of the outer one waits for.
void SharedBus::finished(std::uint32_t number) {
  const Transfer transfer = transfers_[number];
  unused_.push_back(number);
  if (transfer.then == done) return host_.carried(npu_, transfer.credit);
  if (transfer.then == join) return enqueue(0, transfer.owner);
  then(0, transfer.owner, transfer.then);
  attempt(0);
}

void SharedBus::start_reduction(std::uint32_t number) {
  Side& side = sides_[number];
  if (side.reducing || side.reductions.empty()) return;
  side.reducing = true;
  after(transfers_[side.reductions.front()].bytes / 100 * options_.reduction_delay + 50, number, reduced);
}

void SharedBus::on_reduced(std::uint32_t number) {
  Side& side = sides_[number];
  side.reducing = false;
  const std::uint32_t transfer = side.reductions.front();
  side.reductions.pop_front();
  hand_on(number, transfer);
  start_reduction(number);
  attempt(number);
}

}  // namespace astra
