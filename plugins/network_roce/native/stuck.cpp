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

}  // namespace

std::string why_stuck(const Network& network) {
  const std::string time = std::to_string(network.now() / network.settings().ticks_per_ns) + " ns";
  const std::vector<LinkId> circle = Circle(network).find();
  if (!circle.empty()) {
    std::string text = "deadlocked at " + time + ": links pause each other in a circle";
    for (std::size_t place = 0; place < circle.size(); ++place) {
      text += "\n  " + link_name(network, circle[place]) + " waits for " + link_name(network, circle[(place + 1) % circle.size()]);
    }
    return text;
  }
  std::string text = "nothing moves after " + time + ", and messages wait for packets or acknowledgements that were lost (" +
                     std::to_string(network.monitor().drops) + " dropped by switches, " + std::to_string(network.monitor().losses) +
                     " lost on links)";
  if (network.settings().retransmission == 0) text += "; rto_us = 0 means that they are not sent again";
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
