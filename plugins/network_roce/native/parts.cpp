#include "parts.hpp"

#include <algorithm>
#include <utility>

namespace astra::roce {
namespace {

constexpr unsigned kPicosecondBuckets = 11;  // events are sorted within two nanoseconds, about

// Ticks that most events are in the future, at most: packets on a link.
Tick longest_delay(const Plan& plan) {
  Tick longest = 0;
  for (const LinkSpec& link : plan.links) longest = std::max(longest, link.delay);
  return longest + longest / 2;
}

}  // namespace

Parts::Parts(Settings of, Plan of_platform)
    : settings(std::move(of)),
      plan(std::move(of_platform)),
      events(longest_delay(plan), settings.ticks_per_ns == 1 ? 0 : kPicosecondBuckets),
      random(settings.seed),
      packets(settings.algorithm, settings.goes_around()),
      routes(settings, plan),
      wires(settings, plan, events, packets),
      nics(settings, events, packets, flows, wires, plan.links.size()),
      path_choices(settings, plan, routes, events, packets, flows, random),
      switches(settings, plan, events, packets, flows, wires, path_choices, random, monitor),
      congestion(make_congestion({settings, events, packets, flows, nics, random})),
      endpoints(settings, events, packets, flows, nics, path_choices, *congestion, monitor, random),
      starts(settings, events, flows, routes, wires, nics, path_choices, *congestion) {
  path_choices.look_at(switches.queues());
  settings.pint_rtt_ns = static_cast<std::uint64_t>(routes.longest_round_trip_ns());
}

}  // namespace astra::roce
