// Which of several links of equal cost a packet takes: by a hash of its message (ECMP), anew for each packet (spraying), for each burst
// (flowlets), or the one whose port has the fewest bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "events.hpp"
#include "flows.hpp"
#include "large_array.hpp"
#include "murmur.hpp"
#include "output_queues.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "routes.hpp"
#include "settings.hpp"

namespace astra::roce {

class PathChoices {
 public:
  PathChoices(const Settings& settings, const Plan& plan, const Routes& routes, Events& events, Packets& packets, Flows& flows,
              Random& random)
      : settings_(settings),
        plan_(plan),
        routes_(routes),
        events_(events),
        packets_(packets),
        flows_(flows),
        random_(random),
        rotations_(plan.nodes) {}

  // The queues that an adaptive choice looks at.
  void look_at(const OutputQueues& queues) { queues_ = &queues; }

  // A message begins, at an interface.
  void begin(FlowId flow, LinkId nic) {
    if (paths_.size() <= flow) paths_.resize(flow + 1);
    paths_[flow] = Path{};
    paths_[flow].ports[0][kSteps] = nic;
  }
  // Routes have changed: packets may be anywhere on old ones.
  void forget() { keeps_ = false; }

  // The port on which a packet that has come by a link leaves a switch; kNone if there is no path.
  LinkId choose(LinkId link, PacketId id) {
    Packet& packet = packets_[id];
    const bool back = packet.kind != Kind::data;
    if (packet.step >= kSteps || !keeps_ || (!back && settings_.balancing != Balancing::ecmp)) return find(link, id);
    LinkId& saved = paths_[packet.flow].ports[static_cast<std::size_t>(back)][packet.step++];
    if (saved == kNone) saved = find(link, id);
    return saved;
  }

  // Whether a message has begun.
  bool knows_any() const { return !paths_.empty(); }
  void prefetch(FlowId flow) const { __builtin_prefetch(&paths_[flow], 1); }
  // The port that a packet of a message will likely take from a switch, or, where it `ends`, the interface of what it lets go; kNone if
  // that is not known yet.
  LinkId expected(FlowId flow, const Packet& packet, bool ends) const {
    const bool back = packet.kind != Kind::data;
    const std::uint32_t step = std::min<std::uint32_t>(packet.step, kSteps) | kSteps * static_cast<std::uint32_t>(ends);
    return paths_[flow].ports[static_cast<std::size_t>(back != ends)][step];
  }

  // All ports that a message's packets take by its hash, there and back.
  std::vector<LinkId> path(const Flow& flow) const {
    std::vector<LinkId> ports;
    for (const bool back : {false, true}) {
      const NodeId target = back ? flow.ends.source : flow.ends.destination;
      LinkId port = interface(flow, back);
      while (port != kNone) {
        ports.push_back(port);
        const NodeId node = plan_.links[port].target;
        if (node == target) break;
        const auto next_hops = routes_.next_hops(node, target);
        port = next_hops.empty()       ? kNone
               : next_hops.size() == 1 ? next_hops[0]
                                       : next_hops[hash(flow, back, plan_.ids[node]) % next_hops.size()];
      }
    }
    return ports;
  }

  // The interface of an NPU for the packets of a message, or for its acknowledgements.
  LinkId interface(const Flow& flow, bool back) const {
    const auto next_hops =
        routes_.next_hops(back ? flow.ends.destination : flow.ends.source, back ? flow.ends.source : flow.ends.destination);
    return next_hops.empty() ? kNone : next_hops.size() == 1 ? next_hops[0] : next_hops[hash(flow, back, 0) % next_hops.size()];
  }
  // The same of acknowledgements, kept.
  LinkId interface_back(FlowId id) {
    if (!keeps_) return interface(flows_[id], true);
    LinkId& saved = paths_[id].ports[1][kSteps];
    if (saved == kNone) saved = interface(flows_[id], true);
    return saved;
  }

 private:
  static constexpr std::uint32_t kSteps = 7;
  // Ports that a message's packets have taken by its hash, there and back, each with the interface at last.
  struct alignas(64) Path {
    std::array<std::array<LinkId, kSteps + 1>, 2> ports;

    Path() {
      for (auto& each : ports) each.fill(kNone);
    }
  };

  LinkId find(LinkId link, PacketId id) {
    const Packet& packet = packets_[id];
    const NodeId node = plan_.links[link].target;
    const Flow& flow = flows_[packet.flow];
    const bool back = packet.kind != Kind::data;
    if (!back && settings_.goes_around()) return around(link, id);
    const auto next_hops = routes_.next_hops(node, back ? flow.ends.source : flow.ends.destination);
    const auto count = static_cast<std::uint32_t>(next_hops.size());
    if (count == 0) return kNone;
    if (count == 1) return next_hops[0];
    switch (back ? Balancing::ecmp : settings_.balancing) {
      case Balancing::spray_random:
        return next_hops[random_.below(count)];
      case Balancing::spray_round_robin:
        return next_hops[rotations_[node]++ % count];
      case Balancing::flowlet:
        return next_hops[flowlet(node, packet.flow, flow.ends.number) % count];
      case Balancing::adaptive:
        return emptiest(next_hops);
      default:
        return next_hops[hash(flow, back, plan_.ids[node]) % count];
    }
  }

  // The port of a packet of data that may go around: at its first switch it gets a switch to go to first, or none.
  LinkId around(LinkId link, PacketId id) {
    const NodeId node = plan_.links[link].target;
    const NodeId destination = flows_[packets_[id].flow].ends.destination;
    std::uint32_t& middle = packets_.middle(id);
    if (plan_.links[link].source < plan_.npus) {
      middle = random_.below(static_cast<std::uint32_t>(plan_.middles.size()));
      // Nodes joined by one switch stay there.
      const auto direct = routes_.next_hops(node, destination);
      const bool beside = !direct.empty() && plan_.links[direct[0]].target == destination;
      const bool detour = !beside && plan_.middles[middle] != node && !routes_.next_hops_to_middle(node, middle).empty();
      if (!detour ||
          (settings_.balancing == Balancing::ugal && bytes_on_path(node, destination, kNone) <= bytes_on_path(node, destination, middle))) {
        middle = kNone;
      }
    }
    if (middle != kNone && plan_.middles[middle] == node) middle = kNone;
    const auto next_hops = middle == kNone ? routes_.next_hops(node, destination) : routes_.next_hops_to_middle(node, middle);
    return next_hops.empty() ? kNone : emptiest(next_hops);
  }

  // UGAL: bytes in the longest queue on a way, and a packet, times its links.
  std::int64_t bytes_on_path(NodeId node, NodeId destination, std::uint32_t middle) const {
    std::int64_t longest = 0, hops = 0;
    while (node != destination) {
      if (middle != kNone && plan_.middles[middle] == node) middle = kNone;
      const auto next_hops = middle == kNone ? routes_.next_hops(node, destination) : routes_.next_hops_to_middle(node, middle);
      if (next_hops.empty()) return std::numeric_limits<std::int64_t>::max();
      LinkId port = next_hops[0];
      for (const LinkId each : next_hops) port = queues_->bytes(each) < queues_->bytes(port) ? each : port;
      longest = std::max<std::int64_t>(longest, queues_->bytes(port));
      ++hops;
      node = plan_.links[port].target;
    }
    return (longest + settings_.payload_bytes) * hops;
  }

  struct Burst {
    std::uint64_t number = 0;  // of the message
    Tick last = 0;
    std::uint32_t way = 0;
  };
  static constexpr std::uint32_t kDestinationPort = 100;

  std::uint32_t hash(const Flow& flow, bool back, std::uint32_t seed) const {
    const std::uint32_t from = plan_.addresses[flow.ends.source];
    const std::uint32_t to = plan_.addresses[flow.ends.destination];
    const std::uint32_t port = flow.ends.source_port;
    if (back) return murmur3<3>({to, from, kDestinationPort | port << 16}, seed);
    return murmur3<3>({from, to, port | kDestinationPort << 16}, seed);
  }

  std::uint32_t flowlet(NodeId node, FlowId id, std::uint64_t number) {
    Burst& burst = bursts_[static_cast<std::uint64_t>(node) << 32 | id];
    if (burst.number != number + 1 || events_.now() - burst.last > settings_.flowlet_gap) {
      burst.number = number + 1;
      burst.way = random_.below(1U << 16);
    }
    burst.last = events_.now();
    return burst.way;
  }

  LinkId emptiest(std::span<const LinkId> next_hops) {
    LinkId best = kNone;
    std::uint32_t equal = 0;
    for (const LinkId port : next_hops) {
      if (best != kNone && queues_->bytes(port) > queues_->bytes(best)) continue;
      equal = best != kNone && queues_->bytes(port) == queues_->bytes(best) ? equal + 1 : 1;
      if (equal == 1 || random_.below(equal) == 0) best = port;
    }
    return best;
  }

  const Settings& settings_;
  const Plan& plan_;
  const Routes& routes_;
  Events& events_;
  Packets& packets_;
  Flows& flows_;
  Random& random_;
  const OutputQueues* queues_ = nullptr;
  bool keeps_ = true;                                // paths
  LargeArray<Path> paths_;                           // of each message
  std::vector<std::uint32_t> rotations_;             // of each switch
  std::unordered_map<std::uint64_t, Burst> bursts_;  // of switch and message
};

}  // namespace astra::roce
