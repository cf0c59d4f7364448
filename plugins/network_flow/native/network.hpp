// Messages as flows: a message waits for the latency of its route, and then takes its share of every link until all of it has arrived.
#pragma once

#include <astra_sim/network.h>

#include <astra_sim/interrupt.hpp>
#include <astra_sim/radix_queue.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "completions.hpp"
#include "connections.hpp"
#include "deliveries.hpp"
#include "fabric.hpp"
#include "routes.hpp"
#include "rules.hpp"
#include "sharing.hpp"

namespace astra::flow {

// The load of a link: messages, bytes (with acknowledgements), and the most flows that used it at a time.
struct LinkFigures {
  std::int64_t messages = 0;
  double bytes = 0;
  std::int64_t largest_flows = 0;
};

class Network {
 public:
  Network(Fabric fabric, const Rules& rules);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Messages are sent. Calls come in order of time. Raises RouteError.
  void inject(std::int64_t time, std::span<const astra_message_v2> messages);

  // Goes on to the next instant at which messages arrive, if that is not after `until`: returns whether it is.
  bool advance(std::int64_t until);

  // The progress watcher, called repeatedly after rates have been computed.
  void watch(Watcher watcher) { interruptible_.watch(std::move(watcher)); }

  // The result of `advance`: when, and the messages, by number ascending.
  std::int64_t delivered_at() const { return delivered_.time(); }
  const std::vector<astra_delivery>& delivered() const { return delivered_.messages(); }

  // When the last thing happened, how many flows there were, and how often rates were computed anew.
  std::int64_t now() const { return now_; }
  std::int64_t flows() const { return flows_begun_; }
  std::int64_t shared() const { return shared_; }
  const std::vector<LinkFigures>& figures() const { return figures_; }

 private:
  // A message on its links.
  struct Flow {
    Sent sent;
    std::int64_t begun = 0;
  };

  // The bytes that a flow had left at a time, since when its rate has not changed. Apart from flows: many are read for each that ends.
  struct Progress {
    double left = 0;
    std::int64_t since = 0;
    std::int64_t rate = 0;
  };

  // By the numbers that `sharing_` gives.
  struct Flows {
    std::vector<Flow> messages;
    std::vector<Progress> progress;
  };

  // 2^-scale bytes per nanosecond.
  struct Unit {
    int scale = 0;
    double bytes_per_ns = 1;
  };

  void send(std::int64_t time, const astra_message_v2& message);
  // Runs the next event, if that is not after `until`. Returns whether it is.
  bool step(std::int64_t until);
  void settle();
  std::int64_t next_time();
  // Whether a message goes around. With ugal if less is in the way there than on the shortest: the messages of its fullest link, in
  // bandwidths of it, times its links. Around a message takes many ways, so there the mean of the links counts.
  bool goes_around(int source, int destination);
  double in_the_way(int source, int destination, bool around);
  // With ugal: a message begins or ends (`sign` -1).
  void load(int source, int destination, bool around, int sign);
  // A message begins. One without bytes ends at once, and then that which has waited for it begins, if any.
  void begin(Sent sent);
  void flow(const Sent& sent, const Path& path);
  // A message ends. One that has waited for it on the same route takes over its share of links.
  void end(int flow);
  void count(const Sent& sent, const Path& path);
  std::int64_t end_at(const Progress& progress) const;
  std::int64_t weight_of(const Path& path, const Sent& sent) const;
  std::int64_t bound_of(const Path& path) const;
  // Progress until now.
  void bring_forward(Progress& progress) const;

  Fabric fabric_;
  Rules rules_;
  Routes routes_;
  Unit unit_;                // of rates
  double shortest_trip_ns_;  // whose weight is the highest
  bool weighted_;            // whether flows, or the links of a flow, may have different weights
  std::unique_ptr<Sharing> sharing_;
  RadixQueue<Sent> sent_;
  Flows flows_;
  Completions completions_;
  Connections connections_;
  Deliveries delivered_;
  std::vector<std::pair<int, std::int64_t>> links_;  // of the flow that begins
  std::vector<LinkFigures> figures_;
  std::vector<double> loads_;  // of each link, with ugal: messages, of which each counts as much as goes over it
  Interruptible<1> interruptible_;
  std::int64_t now_ = 0;
  std::int64_t due_ = 0;  // when rates are to be computed anew; ASTRA_NEVER: they hold
  std::int64_t flows_begun_ = 0;
  std::int64_t shared_ = 0;
};

}  // namespace astra::flow
