#include "point_to_point.hpp"

namespace astra::engine {

std::vector<Unreceived> PointToPoint::unreceived() const {
  std::vector<Unreceived> messages;
  for (const Mailbox& mailbox : mailboxes_) {
    const Key& key = mailbox.key;
    if (mailbox.arrived > 0) messages.push_back({key.source, key.destination, key.tag, key.bytes, mailbox.arrived});
  }
  return messages;
}

void PointToPoint::begin(TaskId task, const Task& kind, std::uint32_t order) {
  if (kind.kind == TaskKind::send) return begin_send(task, kind);
  begin_receive(task, kind, order);
}

void PointToPoint::on_arrival(MailboxId id, TaskId sender) {
  Mailbox& mailbox = mailboxes_[id];
  if (!transport_.reports_completion()) end(sender);
  if (mailbox.posted.empty()) {
    ++mailbox.arrived;
    return;
  }
  end(mailbox.posted.front());
  mailbox.posted.pop_front();
}

void PointToPoint::on_request(MailboxId id) {
  Mailbox& mailbox = mailboxes_[id];
  if (mailbox.offered.empty()) {
    ++mailbox.requests;
    return;
  }
  send(id, mailbox.offered.front());
  mailbox.offered.pop_front();
}

void PointToPoint::begin_send(TaskId task, const Task& kind) {
  const MailboxId id = mailbox(task.npu, peer(task.npu, kind), kind);
  if (!rendezvous_) return send(id, task);
  Mailbox& mailbox = mailboxes_[id];
  mailbox.offered.push_back(task);
  if (mailbox.requests > 0) {
    --mailbox.requests;
    events_.push(events_.now(), task.npu, PointToPointRequest{id});
  }
}

void PointToPoint::begin_receive(TaskId task, const Task& kind, std::uint32_t order) {
  const NpuId source = peer(task.npu, kind);
  const MailboxId id = mailbox(source, task.npu, kind);
  Mailbox& mailbox = mailboxes_[id];
  if (mailbox.arrived > 0) {
    --mailbox.arrived;
    const CausalKeys::Held causal_key(events_.causal_keys(), events_.causal_keys().make(events_.now()));
    events_.push_end(events_.now(), task.npu, TaskEnd{task}, causal_key, order);
  } else {
    mailbox.posted.push_back(task);
  }
  if (rendezvous_) transport_.transmit(task.npu, source, kControlBytes, PointToPointRequest{id}, mailbox.flow);
}

void PointToPoint::send(MailboxId id, TaskId task) {
  const Key& key = mailboxes_[id].key;
  const PointToPointSent sent{task};
  transport_.transmit(key.source, key.destination, key.bytes, PointToPointArrival{id, task}, mailboxes_[id].flow, -1, kUnknown,
                      transport_.reports_completion() ? &sent : nullptr);
}

void PointToPoint::end(TaskId task) {
  const std::uint32_t order = events_.next_end_order(task.npu);
  events_.push_end(events_.now(), task.npu, TaskEnd{task}, events_.causal_key(), order);
}

MailboxId PointToPoint::mailbox(NpuId source, NpuId destination, const Task& kind) {
  const Key key{source, destination, kind.tag, kind.bytes};
  const auto [place, added] = numbers_.try_emplace(key, next_id(mailboxes_));
  if (added) mailboxes_.push_back({key, transport_.new_flow(), 0, 0, {}, {}});
  return place->second;
}

std::size_t PointToPoint::HashKey::operator()(const Key& key) const {
  std::uint64_t hash = pair_key(key.source, key.destination);
  hash = (hash ^ narrow<std::uint32_t>(key.tag)) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 32 ^ narrow<std::uint64_t>(key.bytes)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

}  // namespace astra::engine
