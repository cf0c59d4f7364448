#include "failures.hpp"

#include <string>

#include "deadlock.hpp"

namespace astra::roce {

Failures::Failures(Parts& parts) : parts_(parts), left_(parts.plan.failures.size()) {
  for (std::uint32_t number = 0; number < left_; ++number) {
    parts_.events.at(parts_.plan.failures[number].time, EventKind::failure, number);
  }
}

void Failures::happen(std::uint32_t number) {
  --left_;
  const std::vector<bool> up = cut(parts_.plan.failures[number]);
  parts_.routes.find(up);
  parts_.path_choices.forget();
  std::vector<FlowId> pairs;
  std::vector<PacketId> acks;
  for (LinkId link = 0; link < up.size(); ++link) {
    if (up[link]) continue;
    parts_.plan.links[link].source < parts_.plan.npus ? parts_.nics.fail(link, pairs, acks) : parts_.switches.fail(link);
  }
  for (const FlowId id : pairs) move_pair(id);
  for (const PacketId id : acks) move_ack(id);
}

std::vector<bool> Failures::cut(const Failure& failure) {
  const std::vector<LinkSpec>& links = parts_.plan.links;
  std::vector<bool> up(links.size(), true);
  for (LinkId link = 0; link < links.size(); ++link) {
    const NodeId source = links[link].source;
    const NodeId target = links[link].target;
    const bool failed = (source == failure.one && target == failure.other) || (source == failure.other && target == failure.one);
    if (failed) parts_.wires.fail(link);
    up[link] = parts_.wires.is_up(link);
  }
  return up;
}

void Failures::move_pair(FlowId id) {
  Flow& flow = parts_.flows[id];
  const LinkId nic = parts_.path_choices.interface(flow, false);
  if (flow.under_way && nic == kNone) {
    throw Deadlock("NPU " + std::to_string(flow.ends.source) + " has lost its last way to NPU " + std::to_string(flow.ends.destination) +
                   ", while a message was under way");
  }
  if (flow.under_way) {
    flow.nic = nic;
    parts_.nics.add(id);
  }
  parts_.flows.drop(id);
}

void Failures::move_ack(PacketId id) {
  const FlowId flow = parts_.packets[id].flow;
  const LinkId nic = parts_.path_choices.interface(parts_.flows[flow], true);
  if (nic != kNone) return parts_.nics.acknowledge(nic, id);
  ++parts_.monitor.losses;
  parts_.flows.drop(flow);
  parts_.packets.give_back(id);
}

}  // namespace astra::roce
