#include "switches.hpp"

namespace astra::roce {

void Switches::take(LinkId link, PacketId id) {
  Packet& packet = packets_[id];
  const std::uint32_t queue = packet.queue;
  const LinkId port = ways_.choose(link, packet);
  if (port == kNone) {
    ++monitor_.losses;
    return drop(id);
  }
  if (!buffers_.admit(link, queue, packet.bytes)) {
    ++monitor_.drops;
    return drop(id);
  }
  packet.came_by = link;
  if (settings_.pauses && buffers_.must_pause(link, queue)) tell_peer(link, queue, Kind::pause);
  if (wires_.is_free(port) && queues_.would_be_next(port, queue)) {
    queues_.pass(port, queue, packet.bytes);
    return send(port, id);
  }
  queues_.push(port, queue, id);
  serve(port);
}

void Switches::send(LinkId port, PacketId id) {
  Packet& packet = packets_[id];
  if (packet.queue != 0) leave(port, packet);
  telemetry_.write(port, id);
  wires_.send(port, id);
}

void Switches::serve(LinkId port) {
  if (!wires_.is_free(port)) {
    if (queues_.waiting(port) > 0) wires_.tell_when_free(port);
    return;
  }
  const PacketId id = queues_.pop(port);
  if (id == kNone) return;
  send(port, id);
  if (queues_.waiting(port) > 0) wires_.tell_when_free(port);
}

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

void Switches::leave(LinkId port, Packet& packet) {
  const std::uint32_t queue = packet.queue;
  buffers_.remove(packet.came_by, queue, packet.bytes);
  if (packet.kind == Kind::data && settings_.marking && is_marked(port, queue) && !packet.marked) {
    packet.marked = true;
    ++monitor_.marks;
  }
  if (settings_.pauses && buffers_.may_resume(packet.came_by, queue)) tell_peer(packet.came_by, queue, Kind::resume);
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
