#include "traffic/traffic.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "network/domain.hpp"

namespace astra::packet {

namespace {

constexpr double kAlways = -27;   // a logarithm of less than 1e-11
constexpr Cycle kLookAhead = 63;  // a lane is looked at this often while it waits for its next packet

}  // namespace

Traffic::Traffic(TrafficOptions options, const Shape& shape)
    : options_(std::move(options)),
      next_(index(shape.lanes())),
      latest_(index(shape.lanes()), -1),
      calendar_(shape.lanes(), kLookAhead),
      offered_(index(options_.periods)),
      tallies_(Messages::kThreads, Tally{std::vector<PeriodFigures>(index(options_.periods))}) {
  std::uint64_t seed = options_.seed;
  for (std::uint64_t& word : state_) {  // splitmix64 (Vigna)
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    word = mixed ^ (mixed >> 31);
  }
  for (const LaneSpec& lane : shape.lane) {
    const double rate = options_.rate / options_.packet_flits / shape.lanes_of(lane.node, lane.vnet).count;
    log_idle_.push_back(std::log1p(-std::min(rate, 1.0 - 1e-12)));
  }
  for (int lane = 0; lane < shape.lanes(); ++lane) {
    at(next_, lane) = gap(lane) - 1;
    calendar_.add(lane, std::min(at(next_, lane), kLookAhead));
  }
}

std::uint64_t Traffic::random() {  // xoshiro256++ (Blackman, Vigna)
  auto rotated = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
  const std::uint64_t result = rotated(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotated(state_[3], 45);
  return result;
}

double Traffic::uniform() { return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53; }

int Traffic::draw(int numbers) {
  const auto product = static_cast<unsigned __int128>(random()) * index(numbers);
  return narrow<int>(product >> 64);
}

// Cycles to the next packet of a lane that makes one with the same probability in every cycle.
Cycle Traffic::gap(int lane) {
  const double log_idle = at(log_idle_, lane);
  if (log_idle < kAlways) return 1;
  return 1 + static_cast<Cycle>(std::min(std::log(uniform()) / log_idle, 1e15));
}

int Traffic::destination(int source) {
  const int fixed = at(options_.target, source);
  if (fixed >= 0) return fixed;
  const int nodes = count_of(options_.target);
  if (options_.hot_share > 0 && uniform() < options_.hot_share) return options_.hot_node;
  return draw(nodes);
}

// The measured period in which a time falls, or -1.
int Traffic::period_of(Cycle time) const {
  const Cycle since = time - options_.warm_up;
  return since < 0 || since >= options_.period * options_.periods ? -1 : narrow<int>(since / options_.period);
}

void Traffic::create(Interfaces& interfaces, Cycle until) {
  for (Cycle now = calendar_.next(created_ + 1); now <= until; now = calendar_.next(now + 1)) {
    calendar_.take(now, [&](int lane) {
      Cycle& next = at(next_, lane);
      if (next == now) {
        interfaces.create(now, lane, destination(interfaces.node_of(lane)), options_.packet_flits);
        interfaces.wake(lane, now);
        const int period = period_of(now);
        if (period >= 0) {
          at(offered_, period) += options_.packet_flits;
          ++measured_;
        }
        at(latest_, lane) = now;
        next += gap(lane);
      }
      calendar_.add(lane, std::min(next, now + kLookAhead));
    });
  }
  created_ = until;
}

void Traffic::look(Interfaces& interfaces, int lane, Cycle now) {
  if (at(latest_, lane) <= now) interfaces.wake(lane, std::min(at(next_, lane), now + kLookAhead));
}

void Traffic::received(int thread, const Message& message, const Packet& packet, Cycle now) {
  Tally& tally = at(tallies_, thread);
  const int arrived = period_of(now);
  if (arrived >= 0) at(tally.periods, arrived).accepted_flits += packet.flits;
  const int created = period_of(message.created);
  if (created < 0) return;
  ++tally.measured;
  PeriodFigures& period = at(tally.periods, created);
  const Cycle latency = now - message.created;
  ++period.packets;
  period.latency += real(latency);
  period.squared += real(latency) * real(latency);
  period.in_network += real(now - packet.injected);
  tally.hops += packet.hops;
  tally.smallest = tally.smallest == 0 ? latency : std::min(tally.smallest, latency);
  tally.largest = std::max(tally.largest, latency);
}

// Sums of whole numbers, also where they are kept as real ones: their order does not matter.
void Traffic::Tally::add(const Tally& other) {
  for (std::size_t p = 0; p < periods.size(); ++p) {
    periods[p].packets += other.periods[p].packets;
    periods[p].latency += other.periods[p].latency;
    periods[p].squared += other.periods[p].squared;
    periods[p].in_network += other.periods[p].in_network;
    periods[p].accepted_flits += other.periods[p].accepted_flits;
  }
  measured += other.measured;
  hops += other.hops;
  if (other.smallest > 0) smallest = smallest == 0 ? other.smallest : std::min(smallest, other.smallest);
  largest = std::max(largest, other.largest);
}

std::int64_t Traffic::pending() const {
  std::int64_t pending = measured_;
  for (const Tally& tally : tallies_) pending -= tally.measured;
  return pending;
}

void Traffic::run(Domain& domain, Watcher watcher) {
  domain.attach(this);
  Interruptible<kCyclesBetweenLooks> interruptible;
  interruptible.watch(std::move(watcher));
  std::vector<std::uint64_t> arrived;
  for (int l = 0; l < domain.shape().lanes(); ++l) domain.interfaces().wake(l, 0);
  const Cycle measured = options_.warm_up + options_.period * options_.periods;
  while (domain.next() < measured + options_.drain_limit && (domain.next() < measured || pending() > 0)) {
    interruptible.step(domain.next());
    const Cycle now = domain.next();
    const Cycle last = std::max(now, std::min(now + domain.longest_window(), measured) - 1);  // pending packets may end it behind that
    create(domain.interfaces(), last);
    cycles = domain.run(now, last, arrived);
    arrived.clear();
  }
  drained = pending() == 0;
  figures = tallies_.front();
  for (std::size_t thread = 1; thread < tallies_.size(); ++thread) figures.add(tallies_[thread]);
  for (std::size_t p = 0; p < offered_.size(); ++p) figures.periods[p].offered_flits = offered_[p];
  domain.attach(nullptr);
}

std::vector<std::string> Traffic::deadlock(Domain domain) const {
  domain.interfaces().drop_messages();
  Interruptible<kCyclesBetweenLooks> interruptible;
  std::vector<std::uint64_t> arrived;
  while (domain.next() != kNever) {
    interruptible.step(domain.next());
    domain.run(domain.next(), domain.next(), arrived);
    arrived.clear();
  }
  return domain.outstanding() > 0 ? domain.waiting() : std::vector<std::string>{};
}

}  // namespace astra::packet
