#include "shared_bus.hpp"

#include "errors.hpp"

namespace astra::engine {
namespace {

constexpr std::int64_t kPsPerNs = 1000;

// Whole nanoseconds, as many as fit.
std::int64_t whole(double nanoseconds) { return nanoseconds < 9e18 ? narrow<std::int64_t>(nanoseconds) : INT64_MAX; }

}  // namespace

SharedBus::SharedBus(const BusOptions& options, Buses& buses, NpuId npu) : options_(options), buses_(buses), npu_(npu) {}

void SharedBus::to_memory(std::int64_t bytes, bool reduced, bool returned, const Carried& token) {
  request(0, transfers_.add({bytes, reduced, returned, Then::done, 0, token}));
}

void SharedBus::to_npu(std::int64_t bytes, bool reduced, bool returned, const Carried& token) {
  request(1, transfers_.add({bytes, reduced, returned, Then::done, 0, token}));
}

void SharedBus::call(std::uint32_t number) {
  const std::uint32_t side = number / 3;
  switch (number % 3) {
    case kSent:
      return sent(side);
    case kReceived:
      return received(side);
    default:
      return reduced(side);
  }
}

void SharedBus::request(std::uint32_t side, std::uint32_t transfer) {
  if (side == 0) {
    request(3, transfers_.add({transfers_[transfer].bytes, false, false, Then::join, transfer, {}}));
  } else {
    join(side, transfer);
  }
}

void SharedBus::join(std::uint32_t side, std::uint32_t transfer) {
  sides_[side].sends.push_back(transfer);
  attempt(side);
}

void SharedBus::attempt(std::uint32_t number) {
  Side& side = sides_[number];
  if (side.state != kFree || side.sends.empty()) return;
  Side& partner = sides_[number ^ 1];
  if (side.burst > options_.burst && !partner.sends.empty() && partner.burst <= options_.burst) return attempt(number ^ 1);
  std::int64_t wait = options_.overhead;
  if (side.previous == kSending) {
    const std::int64_t since = buses_.now_ns() - side.last_end;
    wait = options_.overhead + since > options_.gap ? options_.overhead : options_.gap - since;
  }
  const std::uint32_t transfer = side.sends.front();
  side.sends.pop_front();
  receive(number ^ 1, transfer, wait);
  side.state = kSending;
  const double gap = gap_per_byte(number);
  const auto bytes = narrow<double>(transfers_[transfer].bytes - 1);
  call_after(whole(narrow<double>(wait) + gap * bytes), number, kSent);
}

void SharedBus::sent(std::uint32_t number) {
  Side& side = sides_[number];
  side.last_end = buses_.now_ns();
  side.previous = side.state;
  side.state = kFree;
  ++side.burst;
  attempt(number);
}

void SharedBus::receive(std::uint32_t number, std::uint32_t transfer, std::int64_t wait) {
  Side& side = sides_[number];
  side.receives.push_back(transfer);
  side.previous = side.state;
  side.state = kReceiving;
  side.burst = 0;
  const auto bytes = narrow<double>(transfers_[transfer].bytes - 1);
  const double time =
      narrow<double>(wait) + bytes * gap_per_byte(number) + narrow<double>(options_.latency) + narrow<double>(options_.overhead);
  call_after(whole(time), number, kReceived);
}

void SharedBus::received(std::uint32_t number) {
  Side& side = sides_[number];
  side.last_end = buses_.now_ns();
  side.previous = side.state;
  if (side.receives.size() == 1) side.state = kFree;
  const std::uint32_t transfer = side.receives.front();
  side.receives.pop_front();
  if (transfers_[transfer].reduced) {
    transfers_[transfer].reduced = false;
    through_inner(number, transfer, true, Then::reduce);
  } else {
    hand_on(number, transfer);
  }
  attempt(number);
}

void SharedBus::hand_on(std::uint32_t side, std::uint32_t transfer) {
  if (transfers_[transfer].returned) {
    transfers_[transfer].returned = false;
    through_inner(side, transfer, true, Then::send_back);
  } else {
    through_inner(side, transfer, false, Then::finish);
  }
}

void SharedBus::through_inner(std::uint32_t side, std::uint32_t transfer, bool returned, Then what) {
  if (side != 0) return then(side, transfer, what);
  request(2, transfers_.add({transfers_[transfer].bytes, false, returned, what, transfer, {}}));
}

void SharedBus::then(std::uint32_t side, std::uint32_t transfer, Then what) {
  if (what == Then::reduce) {
    reduce(side, transfer);
  } else if (what == Then::send_back) {
    sides_[side].sends.push_back(transfer);
  } else {
    finished(transfer);
  }
}

void SharedBus::finished(std::uint32_t number) {
  const Transfer transfer = transfers_[number];
  transfers_.release(number);
  if (transfer.then == Then::done) return buses_.carried(npu_, transfer.token);
  if (transfer.then == Then::join) return join(0, transfer.owner);
  then(0, transfer.owner, transfer.then);
  attempt(0);
}

void SharedBus::reduce(std::uint32_t side, std::uint32_t transfer) {
  sides_[side].reductions.push_back(transfer);
  start_reduction(side);
}

void SharedBus::start_reduction(std::uint32_t number) {
  Side& side = sides_[number];
  if (side.reducing || side.reductions.empty()) return;
  side.reducing = true;
  const std::int64_t bytes = transfers_[side.reductions.front()].bytes;
  call_after(bytes / 100 * options_.reduction_delay + options_.reduction_overhead, number, kReduced);
}

void SharedBus::reduced(std::uint32_t number) {
  Side& side = sides_[number];
  side.reducing = false;
  const std::uint32_t transfer = side.reductions.front();
  side.reductions.pop_front();
  hand_on(number, transfer);
  start_reduction(number);
  attempt(number);
}

void SharedBus::call_after(std::int64_t nanoseconds, std::uint32_t side, Call what) {
  buses_.call_after(nanoseconds, npu_, side * 3 + what);
}

double SharedBus::gap_per_byte(std::uint32_t side) const { return side < 2 ? options_.gap_per_byte : options_.memory_gap_per_byte; }

// -- the buses of all NPUs --------------------------------------------------------------------------------------------

Buses::Buses(const BusOptions* options, Events& events, TokenListener& listener, std::uint32_t npus)
    : options_(options), events_(events), listener_(listener), buses_(options ? npus : 0) {}

void Buses::carry(NpuId npu, const BusTransfer& transfer, bool reduced, const Carried& token) {
  SharedBus& bus = bus_of(npu);
  if (transfer.to_npu) {
    bus.to_npu(transfer.bytes, reduced, transfer.returned, token);
  } else {
    bus.to_memory(transfer.bytes, reduced, transfer.returned, token);
  }
}

std::int64_t Buses::now_ns() const { return events_.now() / kPsPerNs; }

void Buses::call_after(std::int64_t nanoseconds, NpuId npu, std::uint32_t call) {
  Time delay;
  if (__builtin_mul_overflow(nanoseconds, kPsPerNs, &delay)) throw TooLong();
  events_.push(events_.after(delay), npu, BusCall{npu, call});
}

void Buses::carried(NpuId npu, const Carried& token) {
  if (token.after_ps < 0) return listener_.on_token(token.rank);
  events_.push(events_.after(token.after_ps), npu, TokenReady{token.rank});
}

SharedBus& Buses::bus_of(NpuId npu) {
  if (!buses_[npu]) buses_[npu] = std::make_unique<SharedBus>(*options_, *this, npu);
  return *buses_[npu];
}

}  // namespace astra::engine
