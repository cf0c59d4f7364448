#include "shared_buffer.hpp"

namespace astra::roce {
namespace {

constexpr std::uint8_t kShift = 3;  // a port may use an eighth of what is free

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
  for (Switch& each : switches_) each.free = settings.buffer_bytes;
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

bool SharedBuffers::admit(LinkId link, std::uint32_t queue, std::int64_t bytes) {
  Ingress& port = ingress_[link];
  Count& count = port.count(queue);
  Switch& at = switches_[port.node];
  const std::int64_t xoff = threshold(port);
  if (count.headroom + bytes > port.headroom && used(count) + bytes > xoff) return false;
  const std::int64_t next = count.in + bytes;
  if (next <= reserve_) {
    count.in = next;
  } else if (next - reserve_ > xoff) {
    count.headroom += bytes;
  } else {
    count.in = next;
    at.shared += std::min(bytes, next - reserve_);
  }
  return true;
}

void SharedBuffers::remove(LinkId link, std::uint32_t queue, std::int64_t bytes) {
  Ingress& port = ingress_[link];
  Count& count = port.count(queue);
  Switch& at = switches_[port.node];
  const std::int64_t of_headroom = std::min(count.headroom, bytes);
  const std::int64_t of_shared = std::min(bytes - of_headroom, used(count));
  count.headroom -= of_headroom;
  count.in -= bytes - of_headroom;
  at.shared -= of_shared;
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

bool SharedBuffers::must_pause(LinkId link, std::uint32_t queue) {
  Ingress& port = ingress_[link];
  const Count& count = port.count(queue);
  if (port.has_paused(queue) || (count.headroom == 0 && used(count) < threshold(port))) return false;
  port.paused |= static_cast<std::uint8_t>(1U << queue);
  return true;
}

bool SharedBuffers::may_resume(LinkId link, std::uint32_t queue) {
  Ingress& port = ingress_[link];
  if (!port.has_paused(queue)) return false;
  const Count& count = port.count(queue);
  if (count.headroom > 0 || (used(count) > 0 && used(count) + margin_ > threshold(port))) return false;
  port.paused &= static_cast<std::uint8_t>(~(1U << queue));
  return true;
}

}  // namespace astra::roce
