#include "switches.hpp"

namespace astra::roce {

void Switches::fail(LinkId port) {
  for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
    for (PacketId id = queues_.drain(port, queue); id != kNone; id = queues_.drain(port, queue)) {
      Packet& packet = packets_[id];
      if (packet.flow == kNone) {
        packets_.give_back(id);
        continue;
      }
      leave(port, packet);
      ++monitor_.losses;
      drop(id);
    }
  }
}

bool Switches::is_marked(LinkId port, std::uint32_t queue) {
  const std::int64_t waiting = queues_.bytes(port, queue);
  if (waiting == 0) return false;
  const LinkSpec& link = plan_.links[port];
  if (waiting > link.mark_all) return true;
  if (waiting <= link.mark_from) return false;
  return random_.share() < link.mark_share * real(waiting - link.mark_from) / real(link.mark_all - link.mark_from);
}

void Switches::tell_peer(LinkId link, std::uint32_t queue, Kind kind) {
  const LinkId port = plan_.reverse[link];
  const PacketId id = packets_.take();
  Packet& packet = packets_[id];
  packet.kind = kind;
  packet.queue = 0;
  packet.payload = queue;
  packet.bytes = settings_.pause_bytes;
  queues_.push(port, 0, id);
  serve(port);
}

void Switches::drop(PacketId id) {
  flows_.drop(packets_[id].flow);
  packets_.give_back(id);
}

}  // namespace astra::roce
