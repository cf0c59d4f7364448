// Why nothing moves: a circle of pauses, or messages whose packets were lost.
#include "deadlock.hpp"

#include <vector>

namespace astra::roce {
namespace {

std::string node_name(const Parts& parts, NodeId node) {
  const std::uint32_t npus = parts.plan.npus;
  return node < npus ? "NPU " + std::to_string(node) : "switch " + std::to_string(node - npus);
}

std::string link_name(const Parts& parts, LinkId link) {
  const LinkSpec& spec = parts.plan.links[link];
  return node_name(parts, spec.source) + " to " + node_name(parts, spec.target);
}

// A port and queue wait where they are paused and hold packets: for the ports in which packets of the pausing switch wait that came from
// here. Looked for in depth.
class Circle {
 public:
  explicit Circle(const Parts& parts) : parts_(parts), seen_(parts.plan.links.size() * kQueues) {}

  // The links of a circle, each with its queue; empty where there is none.
  std::vector<LinkId> find() {
    for (LinkId link = 0; link < parts_.plan.links.size(); ++link) {
      for (std::uint32_t queue = 1; queue < kQueues; ++queue) {
        if (waits(link, queue) && visit(link, queue)) return circle_;
      }
    }
    return {};
  }

 private:
  bool waits(LinkId link, std::uint32_t queue) const {
    if (parts_.plan.links[link].source < parts_.plan.npus) return parts_.nics.is_paused(link, queue);
    return parts_.switches.queues().is_paused(link, queue) && parts_.switches.queues().holds(link, queue);
  }

  bool holds_from(LinkId port, std::uint32_t queue, LinkId link) const {
    const Packets& packets = parts_.packets;
    for (PacketId id = parts_.switches.queues().queue(port, queue).first; id != kNone; id = packets[id].next) {
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
    const NodeId node = parts_.plan.links[link].target;
    for (LinkId next = 0; next < parts_.plan.links.size(); ++next) {
      if (parts_.plan.links[next].source != node || !waits(next, queue) || !holds_from(next, queue, link)) continue;
      if (visit(next, queue)) return true;
    }
    path_.pop_back();
    seen = 2;
    return false;
  }

  const Parts& parts_;
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
const Flow* given_up(const Parts& parts) {
  for (FlowId id = 0; id < parts.flows.room(); ++id) {
    const Flow& flow = parts.flows[id];
    if (flow.under_way && flow.timeout.count >= Endpoints::kMostTimeouts) return &flow;
  }
  return nullptr;
}

std::string why_waiting(const Parts& parts) {
  const Monitor& monitor = parts.monitor;
  const std::string lost = std::to_string(monitor.drops) + " dropped by switches, " + std::to_string(monitor.losses) + " lost on links";
  const Flow* const flow = given_up(parts);
  if (flow == nullptr) {
    const bool never = parts.settings.retransmission == 0;
    return ", and messages wait for packets or acknowledgements that were lost (" + lost + ")" +
           (never ? "; rto_us = 0 means that they are not sent again" : "");
  }
  const std::int64_t timeout = parts.settings.retransmission / parts.settings.ticks_per_ns;
  const std::int64_t trip = parts.routes.round_trip_ns(flow->ends.source, flow->ends.destination);
  std::string text = ": " + std::to_string(Endpoints::kMostTimeouts) + " timeouts in a row brought no acknowledgement (" + lost + ")";
  if (trip > timeout) {
    text += "; a packet from NPU " + std::to_string(flow->ends.source) + " to NPU " + std::to_string(flow->ends.destination) +
            " and its acknowledgement take " + microseconds(trip) + " us and rto_us is " + microseconds(timeout) + ", expected more";
  }
  return text;
}

}  // namespace

std::string explain_deadlock(const Parts& parts) {
  const std::string time = std::to_string(parts.events.now() / parts.settings.ticks_per_ns) + " ns";
  const std::vector<LinkId> circle = Circle(parts).find();
  if (!circle.empty()) {
    std::string text = "deadlocked at " + time + ": links pause each other in a circle";
    for (std::size_t place = 0; place < circle.size(); ++place) {
      text += "\n  " + link_name(parts, circle[place]) + " waits for " + link_name(parts, circle[(place + 1) % circle.size()]);
    }
    return text;
  }
  std::string text = "nothing moves after " + time + why_waiting(parts);
  std::size_t lines = 0;
  for (FlowId id = 0; id < parts.flows.room(); ++id) {
    const Flow& flow = parts.flows[id];
    if (!flow.under_way) continue;
    if (++lines > kMostLines) return text + "\n  ...";
    text += "\n  NPU " + std::to_string(flow.ends.source) + " to NPU " + std::to_string(flow.ends.destination) + ": " +
            std::to_string(flow.acknowledged) + " of " + std::to_string(flow.bytes) + " bytes acknowledged";
  }
  return text;
}

}  // namespace astra::roce
