#include "network/domain.hpp"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "network/deadlock.hpp"

namespace astra::packet {

namespace {

// Acts of units in a shared window, at least, for each thread: for less it takes too long to wait for each other. Fewer where the user asks
// for threads.
constexpr double kSharedActs = 150;
constexpr double kSharedActsAsked = 60;
constexpr std::int64_t kLongRun = 3'000'000;  // acts of units: about a second

}  // namespace

Domain::Domain(std::shared_ptr<const Shape> shape) : shape_(std::move(shape)), parts_(*shape_) {
  threads_ = std::min({shape_->rules.threads, parts_.clock.tiles(), Packets::kThreads});
}

// Flits are counted by channel.
Statistics Domain::statistics() const {
  Statistics result = parts_.statistics;
  std::int64_t between_routers = 0;
  for (int c = 0; c < shape_->channels(); ++c) {
    if (at(shape_->link, c).dimension >= 0) between_routers += result.of(c, Statistics::kChannelFlits);
  }
  result.set(Statistics::kFlitHops, between_routers);
  return result;
}

void Domain::inject(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake) {
  steady_.forget();
  const Cycle flight = parts_.windows.follow(source, destination, vnet);
  parts_.interfaces.send(now, source, destination, vnet, bytes, number, awake, flight);
}

void Domain::attach(Traffic* traffic) {
  has_traffic_ = traffic != nullptr;
  parts_.interfaces.attach(traffic);
}

Cycle Domain::run(Cycle time, Cycle last, std::vector<std::uint64_t>& arrived) {
  if (passing_ > 0) steady_.pass(parts_, std::exchange(passing_, 0));
  const Cycle end = step(time, end_of_window(time, last));
  if (parts_.messages.take_arrived(arrived)) steady_.forget();
  if (parts_.interfaces.packet_maker() < 0 || !looks_for_periods() || parts_.clock.next() == kNever) return end;
  const int anchor = steady_.anchored(parts_.interfaces.packet_maker());
  if (parts_.interfaces.makes_packet(anchor, end) && steady_.look(parts_, end)) passing_ = steady_.periods;
  return end;
}

Cycle Domain::end_of_window(Cycle time, Cycle last) const {
  if (parts_.clock.tiles() == 1) return time;
  return std::max(time, std::min({last, time + parts_.windows.length() - 1, parts_.messages.soonest_arrival()}));
}

bool Domain::is_shared(Cycle time, Cycle last) {
  const double least = shape_->rules.when_long ? kSharedActs : kSharedActsAsked;
  if (threads_ == 1 || pace_ * real(last - time + 1) < least * threads_) return false;
  if (team_ == nullptr) {
    if (shape_->rules.when_long && acts_ < kLongRun) return false;
    try {
      team_ = std::make_shared<ThreadTeam>(threads_);
    } catch (const std::system_error&) {
      if (!shape_->rules.when_long) throw;
      threads_ = 1;  // the default
      return false;
    }
    parts_.employ(threads_);
  }
  ++shared_windows_;
  return true;
}

void Domain::note_pace(Cycle time, Cycle last) {
  if (threads_ == 1) return;
  const std::int64_t acts = parts_.clock.acts();
  pace_ = real(acts - acts_) / real(last - time + 1);
  acts_ = acts;
}

Cycle Domain::step(Cycle time, Cycle last) {
  parts_.interfaces.begin_window();
  parts_.clock.set_now(time);
  Cycle end = time;
  const int anchor = last > time && looks_for_periods() ? steady_.anchor() : -1;
  if (anchor >= 0) {
    auto makes_packet = [&](Cycle now) { return parts_.interfaces.makes_packet(anchor, now); };
    end = run_window(parts_.clock.tile_of(shape_->routers() + anchor), time, last, makes_packet);
    if (makes_packet(end)) last = end;
  }
  auto run_tiles = [&](auto is_mine) {
    Cycle latest = time;
    for (int tile = 0; tile < parts_.clock.tiles(); ++tile) {
      if (is_mine(tile)) latest = std::max(latest, run_window(tile, time, last, [](Cycle) { return false; }));
    }
    return latest;
  };
  if (is_shared(time, last)) {
    std::array<Cycle, Packets::kThreads> ends;
    ends.fill(time);
    team_->run([&](int thread) { at(ends, thread) = run_tiles([&](int tile) { return parts_.clock.thread(tile) == thread; }); });
    end = std::max(end, *std::max_element(ends.begin(), ends.end()));
  } else {
    end = std::max(end, run_tiles([](int) { return true; }));
  }
  parts_.settle();
  parts_.clock.set_now(end);
  note_pace(time, end);
  return end;
}

template <class IsLast>
Cycle Domain::run_window(int tile, Cycle time, Cycle last, IsLast is_last) {
  const bool combined = shape_->rules.allocation == Allocation::combined;
  for (Cycle next = parts_.clock.next_of(tile); next <= last; next = parts_.clock.next_of(tile)) {
    if (combined) {
      run_tile(parts_.combined, tile, next);
    } else {
      run_tile(parts_.staged, tile, next);
    }
    time = next;
    if (is_last(next)) break;
  }
  return time;
}

template <class Routers>
void Domain::run_tile(Routers& routers, int tile, Cycle time) {
  const int first_injection_port = shape_->routers();
  auto arrive = [&](int c) {
    const int sink = at(shape_->link, c).sink;
    if (sink >= first_injection_port) {
      parts_.flit_channels.deliver(c, time, [&](const Flit& flit) { parts_.interfaces.receive(sink - first_injection_port, flit, time); });
    } else {
      parts_.flit_channels.deliver(c, time, [&](const Flit& flit) { routers.receive(c, flit, time); });
    }
  };
  const int thread = parts_.clock.thread(tile);
  auto act = [&](int unit) {
    unit >= first_injection_port ? parts_.interfaces.run(unit - first_injection_port, time) : routers.run(unit, time, thread);
  };
  parts_.clock.run(tile, time, arrive, act);
}

void Domain::catch_up(Cycle time) {
  if (passing_ == 0) return;
  const std::int64_t whole = std::min(passing_, (time - parts_.clock.now()) / steady_.period);
  passing_ = 0;
  steady_.pass(parts_, whole);
  steady_.forget();
  while (parts_.clock.next() <= time) step(parts_.clock.next(), parts_.clock.next());
}

std::vector<std::int64_t> Domain::signature(Cycle now) {
  for (int c = 0; c < shape_->channels(); ++c) parts_.credits.take(c, now);
  parts_.packets.clear();
  parts_.messages.clear();
  steady_.forget();
  return SteadyState::signature(parts_, now);
}

std::vector<std::string> Domain::waiting() const { return packet::waiting(*shape_, parts_.credits, parts_.inputs); }

std::string Domain::check() const {
  for (int c = 0; c < shape_->channels(); ++c) {
    const std::string& name = at(shape_->name, c);
    for (int v = 0; v < shape_->vc_count(c); ++v) {
      const std::int64_t buffered = parts_.inputs.vc(c, v).buffer.size();
      const CreditChannels::Places places = parts_.credits.places(c, v);
      const std::int64_t held = places.held + parts_.flit_channels.count(c, v) + buffered;
      if (held * places.parts + places.under_way != places.buffers) {
        return name + ": credits, flits and credits under way add up to " + std::to_string(held);
      }
      if (buffered * places.parts > places.buffers) return name + ": more flits than buffers";
      if (!parts_.inputs.in_order(c, v)) return name + ": flits out of order";
    }
  }
  if (outstanding() > 0) return "";
  if (parts_.inputs.any_flits()) return "flits are left though all messages have arrived";
  if (parts_.packets.under_way() > 0) return "packets are left though all messages have arrived";
  return "";
}

}  // namespace astra::packet
