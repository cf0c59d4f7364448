#include "network.hpp"

#include <astra_sim/network.h>

#include <algorithm>
#include <astra_sim/connection.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "even_sharing.hpp"
#include "weighted_sharing.hpp"

namespace astra::flow {

namespace {

constexpr double kPsPerNs = 1000;
// From here on whole picoseconds are not exact in floating point.
constexpr double kLongest = 9007199254740992.0;
constexpr std::int64_t kFullWeight = std::int64_t{1} << 50;
constexpr int kAhead = 16;            // flows ahead for which memory is asked
constexpr int kLargestCapacity = 49;  // a power of two; a flow that splits over many links may have a rate far above it

int scale_of(const Fabric& fabric, double factor) {
  double largest = 0;
  for (int dimension = 0; dimension < fabric.dimensions(); ++dimension) {
    for (const GroupLink& link : fabric.group(dimension).links) largest = std::max(largest, link.bandwidth * factor);
  }
  return largest > 0 ? kLargestCapacity - std::ilogb(largest) : 0;
}

std::int64_t scaled(double bytes_per_ns, int scale) {
  const double number = std::ldexp(bytes_per_ns, scale);
  return number < std::ldexp(1.0, kLargestCapacity + 2) ? std::max<std::int64_t>(1, std::llround(number)) : Sharing::kNoBound;
}

std::vector<std::int64_t> capacities(const Fabric& fabric, double factor, int scale) {
  std::vector<std::int64_t> result;
  for (int link = 0; link < fabric.links(); ++link) result.push_back(scaled(fabric.bandwidth(link) * factor, scale));
  return result;
}

std::unique_ptr<Sharing> sharing(const Rules& rules, bool weighted, const std::vector<std::int64_t>& capacity) {
  if (weighted || rules.window_bytes > 0) return std::make_unique<WeightedSharing>(capacity);
  return std::make_unique<EvenSharing>(capacity);
}

// The shortest of all parts of round trip times.
double shortest_trip_ns(const Fabric& fabric, double weight_bytes) {
  double shortest = std::numeric_limits<double>::infinity();
  auto note = [&](double time) { shortest = time > 0 ? std::min(shortest, time) : shortest; };
  for (int dimension = 0; dimension < fabric.dimensions(); ++dimension) {
    const Group& group = fabric.group(dimension);
    for (const GroupLink& link : group.links) note(link.latency_ns + weight_bytes / link.bandwidth);
    for (double latency : group.switch_latency_ns) note(latency);
    note(group.nic_latency_ns);
  }
  return shortest;
}

std::string name_of(const std::string& what, int source, int destination) {
  return what + " from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination);
}

std::int64_t later(std::int64_t time, double picoseconds, const char* what) {
  if (!(picoseconds < kLongest) || static_cast<std::int64_t>(picoseconds) > ASTRA_NEVER - 1 - time) {
    throw std::overflow_error(std::string(what) + " takes longer than can be simulated");
  }
  return time + static_cast<std::int64_t>(picoseconds);
}

}  // namespace

Network::Network(Fabric fabric, const Rules& rules)
    : fabric_(std::move(fabric)),
      rules_(rules),
      routes_(fabric_, rules_),
      unit_{scale_of(fabric_, rules.bandwidth_factor), 1},
      shortest_trip_ns_(shortest_trip_ns(fabric_, rules.weight_bytes)),
      weighted_(rules.by_round_trip() || rules.ack_share > 0 || rules.routing == Routing::split || rules.routing == Routing::valiant ||
                rules.routing == Routing::ugal),
      sharing_(sharing(rules, weighted_, capacities(fabric_, rules.bandwidth_factor, unit_.scale))),
      figures_(index(fabric_.links())),
      loads_(rules.routing == Routing::ugal ? index(fabric_.links()) : 0) {
  unit_.bytes_per_ns = std::ldexp(1.0, -unit_.scale);
}

void Network::inject(std::int64_t time, std::span<const astra_message_v2> messages) {
  for (const astra_message_v2& each : messages) send(time, each);
}

void Network::send(std::int64_t at_time, const astra_message_v2& message) {
  const int source = message.source, destination = message.destination;
  if (std::min(source, destination) < 0 || std::max(source, destination) >= fabric_.npus() || source == destination || message.bytes < 0) {
    throw RouteError(name_of("a message of " + std::to_string(message.bytes) + " bytes", source, destination) + " has no route");
  }
  if (at_time > now_) {
    while (step(at_time)) {
    }
    now_ = at_time;
  }
  const bool around = goes_around(source, destination);
  const double latency = rules_.latency_factor * routes_.path(source, destination, around).latency_ns * kPsPerNs;
  const std::int64_t ready = later(at_time, std::nearbyint(latency), "a latency");
  sent_.push(ready, message.number, message.bytes,
             rules_.connections == Connection::message ? 0 : connection_of(message.queue, message.flow), source, destination, around);
  if (message.bytes > 0) load(source, destination, around, 1);
}

bool Network::goes_around(int source, int destination) {
  if (rules_.routing != Routing::ugal) return rules_.routing == Routing::valiant;
  return in_the_way(source, destination, false) > in_the_way(source, destination, true);
}

double Network::in_the_way(int source, int destination, bool around) {
  double longest = 0, hops = 0, sum = 0;
  for (const Use& use : routes_.path(source, destination, around).uses) {
    const double queue = (at(loads_, use.link) + use.share) / fabric_.bandwidth(use.link);
    longest = std::max(longest, queue);
    hops += use.share;
    sum += use.share * queue;
  }
  return around ? sum : longest * hops;
}

void Network::load(int source, int destination, bool around, int sign) {
  if (loads_.empty()) return;
  for (const Use& use : routes_.path(source, destination, around).uses) at(loads_, use.link) += sign * use.share;
}

bool Network::advance(std::int64_t until) {
  delivered_.forget_taken();
  while (delivered_.empty()) {
    if (!step(until)) return false;
  }
  if (delivered_.next_time() > until) return false;
  delivered_.take();
  return true;
}

std::int64_t Network::next_time() {
  if (completions_.empty() && sent_.empty()) return ASTRA_NEVER;
  const std::int64_t begin = sent_.empty() ? ASTRA_NEVER : sent_.next_time();
  const std::int64_t end = completions_.empty() ? ASTRA_NEVER : completions_.time();
  return std::min({begin, end, due_});
}

bool Network::step(std::int64_t until) {
  settle();
  const std::int64_t next = next_time();
  if (next == ASTRA_NEVER || next > until) return false;
  now_ = next;
  while (!completions_.empty() && completions_.time() == now_) end(completions_.flow());
  if (!sent_.empty() && sent_.next_time() == now_) {
    sent_.take([this](const Sent& sent) {
      if (connections_.enter(sent)) begin(sent);
    });
  }
  return true;
}

// New rates hold from now on.
void Network::settle() {
  if (now_ < due_) return;
  due_ = ASTRA_NEVER;
  shared_ += sharing_->settle() ? 1 : 0;
  const std::vector<Sharing::Changed>& changed = sharing_->changed();
  for (int place = 0; place < count_of(changed); ++place) {
    if (place + kAhead < count_of(changed)) {
      const int later = at(changed, place + kAhead).flow;
      __builtin_prefetch(&at(flows_.progress, later));
      completions_.prefetch(later);
    }
    const auto [number, rate] = at(changed, place);
    Progress& progress = at(flows_.progress, number);
    if (rate == progress.rate) continue;
    bring_forward(progress);
    progress.rate = rate;
    completions_.set(number, end_at(progress));
  }
  interruptible_.step(now_);
}

void Network::begin(Sent sent) {
  for (;;) {
    const Path path = routes_.path(sent.source, sent.destination, sent.around);
    count(sent, path);
    if (sent.bytes > 0) return flow(sent, path);
    delivered_.add(now_, sent.number);
    const std::optional<Sent> next = connections_.leave(sent);
    if (!next) return;
    sent = *next;
  }
}

void Network::flow(const Sent& sent, const Path& path) {
  const std::int64_t weight = weight_of(path, sent);
  links_.clear();
  for (const Use& use : path.uses) {
    const double share = real(weight) * use.share;
    links_.emplace_back(use.link, weighted_ ? std::max<std::int64_t>(1, std::llround(share)) : 1);
  }
  const int number = sharing_->add(weight, bound_of(path), links_);
  if (count_of(flows_.messages) <= number) {
    flows_.messages.resize(index(number) + 1);
    flows_.progress.resize(index(number) + 1);
  }
  due_ = now_;
  at(flows_.messages, number) = {sent, now_};
  at(flows_.progress, number) = {real(sent.bytes), now_, 0};
  for (const Use& use : path.uses) {
    LinkFigures& figures = at(figures_, use.link);
    figures.largest_flows = std::max<std::int64_t>(figures.largest_flows, sharing_->flows_on(use.link));
  }
}

void Network::end(int number) {
  Flow& flow = at(flows_.messages, number);
  const Sent ended = flow.sent;
  load(ended.source, ended.destination, ended.around, -1);
  delivered_.add(now_, ended.number);
  const std::optional<Sent> next = connections_.leave(ended);
  if (next && next->bytes > 0 && next->around == ended.around) {
    count(*next, routes_.path(next->source, next->destination, next->around));
    flow = {*next, now_};
    Progress& progress = at(flows_.progress, number);
    progress = {real(next->bytes), now_, progress.rate};
    completions_.set(number, end_at(progress));
    return;
  }
  completions_.pop();
  sharing_->remove(number);
  due_ = std::min(due_, now_ + static_cast<std::int64_t>(rules_.tolerance * real(now_ - flow.begun)));
  if (next) begin(*next);
}

void Network::count(const Sent& sent, const Path& path) {
  ++flows_begun_;
  for (const Use& use : path.uses) {
    LinkFigures& figures = at(figures_, use.link);
    ++figures.messages;
    figures.bytes += use.share * real(sent.bytes);
  }
}

// When a flow ends if its rate stays.
std::int64_t Network::end_at(const Progress& progress) const {
  return later(progress.since, std::nearbyint(progress.left / (real(progress.rate) * unit_.bytes_per_ns) * kPsPerNs), "a message");
}

void Network::bring_forward(Progress& progress) const {
  const double gone = real(now_ - progress.since) * (real(progress.rate) * unit_.bytes_per_ns / kPsPerNs);
  progress.left = std::max(0.0, progress.left - gone);
  progress.since = now_;
}

std::int64_t Network::weight_of(const Path& path, const Sent& sent) const {
  if (!rules_.by_round_trip()) return weighted_ ? kFullWeight : 1;
  const double trip_ns = path.latency_ns + rules_.weight_bytes * path.ns_per_byte;
  if (!(trip_ns > 0)) {
    throw RouteError(name_of("fairness=rtt: the route", sent.source, sent.destination) +
                     " has no latency, so its flows have no weight; expected latencies or weight_bytes above 0, or fairness=equal");
  }
  return std::clamp<std::int64_t>(std::llround(real(kFullWeight) * (shortest_trip_ns_ / trip_ns)), 1, kFullWeight);
}

std::int64_t Network::bound_of(const Path& path) const {
  if (rules_.window_bytes == 0 || path.latency_ns == 0) return Sharing::kNoBound;
  return scaled(rules_.bandwidth_factor * rules_.window_bytes / (2 * path.latency_ns), unit_.scale);
}

}  // namespace astra::flow
