#include "shared_buffer.hpp"

namespace astra::roce {
namespace {

constexpr std::uint8_t kShift = 3;  // a port may use an eighth of the free part

}  // namespace

SharedBuffers::SharedBuffers(const Settings& settings, const Plan& plan)
    : reserve_(settings.reserve_bytes),
      margin_(settings.resume_margin_bytes),
      wraps_(settings.thresholds_wrap),
      ingress_(plan.links.size()),
      switches_(plan.nodes) {
  std::int64_t first_nic = 0;
  for (const LinkSpec& link : plan.links) {
    if (first_nic == 0 && link.source == 0) first_nic = link.rate;
  }
  for (NodeId node = 0; node < plan.nodes; ++node) switches_[node].free = plan.memory[node];
  for (LinkId number = 0; number < plan.links.size(); ++number) {
    const LinkSpec& link = plan.links[number];
    // Twice as fast as the interface of the first NPU: twice the share.
    std::uint8_t shift = kShift;
    for (std::int64_t rate = link.rate; first_nic > 0 && rate > first_nic && shift > 0; rate /= 2) --shift;
    ingress_[number].headroom = link.headroom;
    ingress_[number].node = link.target;
    ingress_[number].shift = shift;
    switches_[link.target].free -= link.headroom + reserve_;
  }
}

void SharedBuffers::snapshot(LinkId link, Snapshot& snapshot) const {
  const Ingress& port = ingress_[link];
  snapshot.put(port.headroom);
  snapshot.put(port.shift);
  snapshot.put(port.paused);
  for (const Count& count : port.counts) {
    snapshot.put(count.in);
    snapshot.put(count.headroom);
  }
}

void SharedBuffers::snapshot_node(NodeId node, Snapshot& snapshot) const {
  snapshot.put(switches_[node].free);
  snapshot.put(switches_[node].shared);
}

}  // namespace astra::roce
