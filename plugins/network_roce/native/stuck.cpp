// Why nothing moves: a circle of pauses, or messages whose packets were lost.
#include <string>
#include <vector>

#include "network.hpp"

namespace astra::roce {
namespace {

std::string node_name(const Network& network, NodeId node) {
  const std::uint32_t npus = network.plan().npus;
  return node < npus ? "NPU " + std::to_string(node) : "switch " + std::to_string(node - npus);
}

std::string link_name(const Network& network, LinkId link) {
  const LinkSpec& spec = network.plan().links[link];
  return node_name(network, spec.source) + " to " + node_name(network, spec.target);
}

// A port and queue wait where they are paused and hold packets: for the ports in which packets of the pausing switch wait that came from
// here. Looked for in depth.
class Circle {
 public:
  explicit Circle(const Network& network) : network_(network), seen_(network.plan().links.size() * kQueues) {}

  // The links of a circle, each with its queue; empty where there is none.
  std::vector<LinkId> find() {
    for (LinkId link = 0; link < network_.plan().links.size(); ++link) {
      for (std::uint32_t queue = 1; queue < kQueues; ++queue) {
        if (waits(link, queue) && visit(link, queue)) return circle_;
      }
    }
    return {};
  }

 private:
  bool waits(LinkId link, std::uint32_t queue) const {
    if (network_.plan().links[link].source < network_.plan().npus) return network_.nics().is_paused(link, queue);
    return network_.switches().queues().is_paused(link, queue) && network_.switches().queues().holds(link, queue);
  }

  bool holds_from(LinkId port, std::uint32_t queue, LinkId link) const {
    const Packets& packets = network_.packets();
    for (PacketId id = network_.switches().queues().queue(port, queue).first; id != kNone; id = packets[id].next) {
      if (packets[id].came_by == link) return true;
    }
    return false;
  }

  bool visit(LinkId link, std::uint32_t queue) {
    auto& seen = seen_[link * kQueues + queue];
    if (seen == 2) return false;
    if (seen == 1) {
      std::size_t first = 0;
      while (path_[first] != link) ++first;
      circle_.assign(path_.begin() + static_cast<std::ptrdiff_t>(first), path_.end());
      return true;
    }
    seen = 1;
    path_.push_back(link);
    const NodeId node = network_.plan().links[link].target;
    for (LinkId next = 0; next < network_.plan().links.size(); ++next) {
      if (network_.plan().links[next].source != node || !waits(next, queue) || !holds_from(next, queue, link)) continue;
      if (visit(next, queue)) return true;
    }
    path_.pop_back();
    seen = 2;
    return false;
  }

  const Network& network_;
  std::vector<std::uint8_t> seen_;  // 1: on the path, 2: done
  std::vector<LinkId> path_;
  std::vector<LinkId> circle_;
};

constexpr std::size_t kMostLines = 10;

std::string microseconds(std::int64_t ns) {
  std::string text = std::to_string(static_cast<double>(ns) / 1000);  // with six digits behind the point
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

// Of a message under way, one that has no timeouts left; null where there is none.
const Flow* given_up(const Network& network) {
  for (FlowId id = 0; id < network.flows().room(); ++id) {
    const Flow& flow = network.flows()[id];
    if (flow.under_way && flow.timeouts >= Endpoints::kMostTimeouts) return &flow;
  }
  return nullptr;
}

std::string why_waiting(const Network& network) {
  const Monitor& monitor = network.monitor();
  const std::string lost = std::to_string(monitor.drops) + " dropped by switches, " + std::to_string(monitor.losses) + " lost on links";
  const Flow* const flow = given_up(network);
  if (flow == nullptr) {
    const bool never = network.settings().retransmission == 0;
    return ", and messages wait for packets or acknowledgements that were lost (" + lost + ")" +
           (never ? "; rto_us = 0 means that they are not sent again" : "");
  }
  const std::int64_t timeout = network.settings().retransmission / network.settings().ticks_per_ns;
  const std::int64_t trip = network.routes().round_trip_ns(flow->source, flow->destination);
  std::string text = ": " + std::to_string(Endpoints::kMostTimeouts) + " timeouts in a row brought no acknowledgement (" + lost + ")";
  if (trip > timeout) {
    text += "; a packet from NPU " + std::to_string(flow->source) + " to NPU " + std::to_string(flow->destination) +
            " and its acknowledgement take " + microseconds(trip) + " us and rto_us is " + microseconds(timeout) + ", expected more";
  }
  return text;
}

}  // namespace

std::string explain_deadlock(const Network& network) {
  const std::string time = std::to_string(network.now() / network.settings().ticks_per_ns) + " ns";
  const std::vector<LinkId> circle = Circle(network).find();
  if (!circle.empty()) {
    std::string text = "deadlocked at " + time + ": links pause each other in a circle";
    for (std::size_t place = 0; place < circle.size(); ++place) {
      text += "\n  " + link_name(network, circle[place]) + " waits for " + link_name(network, circle[(place + 1) % circle.size()]);
    }
    return text;
  }
  std::string text = "nothing moves after " + time + why_waiting(network);
  std::size_t lines = 0;
  for (FlowId id = 0; id < network.flows().room(); ++id) {
    const Flow& flow = network.flows()[id];
    if (!flow.under_way) continue;
    if (++lines > kMostLines) return text + "\n  ...";
    text += "\n  NPU " + std::to_string(flow.source) + " to NPU " + std::to_string(flow.destination) + ": " +
            std::to_string(flow.acknowledged) + " of " + std::to_string(flow.bytes) + " bytes acknowledged";
  }
  return text;
}

}  // namespace astra::roce
