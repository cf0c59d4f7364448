#include "traffic/traffic.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "network/domain.hpp"

namespace astra::packet {

namespace {

constexpr double kAlways = -27;   // a logarithm of less than 1e-11
constexpr Cycle kLookAhead = 63;  // an injection port is looked at this often while it waits for its next packet

}  // namespace

Traffic::Traffic(TrafficOptions options, const Shape& shape)
    : options_(std::move(options)),
      next_(index(shape.injection_ports())),
      latest_(index(shape.injection_ports()), -1),
      calendar_(shape.injection_ports(), kLookAhead),
      offered_(index(options_.periods)),
      tallies_(Packets::kThreads, Tally{std::vector<PeriodFigures>(index(options_.periods))}) {
  std::uint64_t seed = options_.seed;
  for (std::uint64_t& word : state_) {  // splitmix64 (Vigna)
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    word = mixed ^ (mixed >> 31);
  }
  for (const InjectionPortSpec& injection_port : shape.injection_port) {
    const double rate = options_.rate / options_.packet_flits / shape.injection_ports_of(injection_port.node, injection_port.vnet).count;
    log_idle_.push_back(std::log1p(-std::min(rate, 1.0 - 1e-12)));
  }
  for (int injection_port = 0; injection_port < shape.injection_ports(); ++injection_port) {
    at(next_, injection_port) = gap(injection_port) - 1;
    calendar_.add(injection_port, std::min(at(next_, injection_port), kLookAhead));
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

// Cycles to the next packet of an injection port that makes one with the same probability in every cycle.
Cycle Traffic::gap(int injection_port) {
  const double log_idle = at(log_idle_, injection_port);
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
    calendar_.take(now, [&](int injection_port) {
      Cycle& next = at(next_, injection_port);
      if (next == now) {
        interfaces.create(now, injection_port, destination(interfaces.node_of(injection_port)), options_.packet_flits);
        interfaces.wake(injection_port, now);
        const int period = period_of(now);
        if (period >= 0) {
          at(offered_, period) += options_.packet_flits;
          ++measured_;
        }
        at(latest_, injection_port) = now;
        next += gap(injection_port);
      }
      calendar_.add(injection_port, std::min(next, now + kLookAhead));
    });
  }
  created_ = until;
}

void Traffic::look(Interfaces& interfaces, int injection_port, Cycle now) {
  if (at(latest_, injection_port) <= now) interfaces.wake(injection_port, std::min(at(next_, injection_port), now + kLookAhead));
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
  for (int l = 0; l < domain.shape().injection_ports(); ++l) domain.interfaces().wake(l, 0);
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
