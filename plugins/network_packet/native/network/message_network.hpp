// Carriers of a run's messages: the contract behind the function table and the Python module. Times are picoseconds.
#pragma once

#include <astra_sim/network.h>

#include <astra_sim/interrupt.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/flit.hpp"
#include "base/statistics.hpp"
#include "network/shape.hpp"

namespace astra::packet {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// A message that cannot be carried.
struct RouteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Nothing moves any more, and messages are under way. The text has a line for every channel that waits.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws RouteError for a message with an end outside of the NPUs.
inline void check_ends(int source, int destination, int npus) {
  if (source >= 0 && source < npus && destination >= 0 && destination < npus) return;
  throw RouteError("a message from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination) +
                   " has an end outside the platform of " + std::to_string(npus) + " NPUs");
}

class MessageNetwork {
 public:
  MessageNetwork() = default;
  MessageNetwork(const MessageNetwork&) = delete;
  MessageNetwork& operator=(const MessageNetwork&) = delete;
  virtual ~MessageNetwork() = default;

  // Takes messages as the function table has them.
  void inject(std::int64_t at, std::span<const astra_message> messages) {
    for (const astra_message& each : messages) inject(at, each.number, each.source, each.destination, each.bytes, each.queue);
  }
  virtual void inject(std::int64_t time, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) = 0;
  // Goes on to the next arrivals, if they are not after `until`. Returns whether there are any; then `time` and `arrived` hold them. Throws
  // Deadlock where there is no limit, nothing arrives any more and something should; Interrupted between two cycles, and one can go on.
  virtual bool advance(std::int64_t until) = 0;
  virtual std::int64_t next_event() const = 0;

  std::int64_t time = 0;
  std::vector<std::uint64_t> arrived;
  std::int64_t delivered_at() const { return time; }
  const std::vector<std::uint64_t>& delivered() const { return arrived; }
  std::vector<astra_statistic> table_statistics() const;

  // Messages come from NPUs' own events, which wake their interfaces (rule `same_cycle`), and not from outside.
  virtual void wake_senders() = 0;

  // Domains: form, and counters so far. If a domain represents `copies`, each of its channels does.
  virtual std::size_t domains() const = 0;
  virtual const Shape& shape(std::size_t index) const = 0;
  virtual Statistics statistics(std::size_t index) const = 0;
  virtual int copies() const { return 1; }
  virtual std::int64_t clock_ps() const = 0;
  std::int64_t watched_unit_ps() const { return clock_ps(); }
  virtual Cycle now() const = 0;
  // The progress watcher, called repeatedly within a long `advance`; empty: none.
  virtual void watch(Watcher watcher) = 0;
  // Windows that several threads have run together.
  virtual std::int64_t shared_windows() const = 0;
  virtual std::string check() const = 0;
};

inline std::vector<astra_statistic> MessageNetwork::table_statistics() const {
  std::int64_t packets = 0, flits = 0, flit_hops = 0;
  for (std::size_t domain = 0; domain < domains(); ++domain) {
    const Statistics figures = statistics(domain);
    packets += figures.total(Statistics::kPackets);
    flits += figures.total(Statistics::kFlits);
    flit_hops += figures.total(Statistics::kFlitHops);
  }
  return {{"packets", real(packets)}, {"flits", real(flits)}, {"flit_hops", real(flit_hops)}};
}

}  // namespace astra::packet
