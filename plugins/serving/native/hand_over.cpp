#include "hand_over.hpp"

#include <algorithm>

namespace astra::serving {

void HandOver::stream(Instance& sender, std::optional<double> end, const Takers& receivers) {
  if (!transfers_->by_layer()) return;
  for (const Sequence* each : sender.gave_way) take_back(*each);
  if (!end) return;
  RoutedChunks parts;
  for (const auto& [sequence, tokens] : sender.batch()) {
    if (sequence->output < 2) continue;
    Way& each = way(*sequence, sender, receivers);
    const PromptChunk chunk{agenda_.now(), *end, sequence->computed + tokens - each.seen};
    each.seen += chunk.tokens;
    if (each.is_granted) {
      parts.emplace_back(each.route(), chunk);
    } else {
      each.chunks.push_back(chunk);
    }
  }
  transfers_->stream(agenda_.now(), parts);
}

// A sequence on its way, the first time to the instance that is chosen then, which is asked for blocks.
HandOver::Way& HandOver::way(Sequence& sequence, Instance& sender, const Takers& receivers) {
  const auto known = under_way_.find(sequence.number);
  if (known != under_way_.end()) return known->second;
  Instance& receiver = router_.choose(sequence, receivers);
  Way& result = under_way_[sequence.number];
  result.sequence = &sequence;
  result.sender = &sender;
  result.receiver = &receiver;
  static_cast<Request&>(result.claim) = sequence;
  result.claim.total = sequence.input + 1;
  ++receiver.coming;
  receiver.incoming.push_back(sequence.number);
  adopt(receiver);
  return result;
}

// Forget that a sequence is on its way, which lost its blocks: another may need those that are kept for it.
void HandOver::take_back(const Sequence& sequence) {
  const auto known = under_way_.extract(sequence.number);
  if (known.empty()) return;
  Way lost = std::move(known.mapped());
  Instance& receiver = *lost.receiver;
  --receiver.coming;
  if (lost.is_granted) {
    receiver.scheduler.cache.release(lost.claim);
  } else {
    receiver.incoming.erase(std::find(receiver.incoming.begin(), receiver.incoming.end(), sequence.number));
  }
  transfers_->forget(sequence.number);
  adopt(receiver);
  agenda_.got(receiver);
}

void HandOver::take(Sequence& sequence, Instance& sender, const Takers& receivers) {
  std::vector<Sequence*>& running = sender.scheduler.running;
  running.erase(std::find(running.begin(), running.end(), &sequence));
  Way& each = way(sequence, sender, receivers);
  sequence.handed.sender = sender.number();
  sequence.instance = each.receiver->number();
  each.is_computed = true;
  if (each.is_granted) close(each);
}

void HandOver::adopt(Instance& receiver) {
  if (receiver.incoming.empty()) return;
  agenda_.cut(receiver);
  KvCache& cache = receiver.scheduler.cache;
  while (!receiver.incoming.empty()) {
    Way& next = under_way_.at(receiver.incoming.front());
    if (cache.blocks_for(next.claim.total) > cache.free_blocks()) break;
    receiver.incoming.pop_front();
    cache.grow(next.claim, next.claim.total);
    next.is_granted = true;
    RoutedChunks parts;
    for (const PromptChunk& each : next.chunks) parts.emplace_back(next.route(), each);
    transfers_->stream(agenda_.now(), parts);
    if (next.is_computed) close(next);
  }
}

// Wait for the end of the transfer of a prompt that has ended.
void HandOver::close(const Way& way) {
  const auto end = transfers_->close(agenda_.now(), way.route(), way.sequence->computed);
  if (end) agenda_.push(*end, Kind::kTransferred, way.sequence->number);
}

void HandOver::transferred(Sequence& sequence) {
  auto ended = under_way_.extract(sequence.number);
  Instance& sender = *ended.mapped().sender;
  Instance& receiver = *ended.mapped().receiver;
  sender.scheduler.cache.release(sequence);
  sequence.blocks = std::move(ended.mapped().claim.blocks);
  sequence.capacity = ended.mapped().claim.capacity;
  sequence.handed.end = agenda_.now();
  --receiver.coming;
  receiver.scheduler.add(sequence);
  agenda_.wake(sender);
  agenda_.got(receiver);
}

void HandOver::advance() {
  if (!transfers_->is_under_way()) return;
  const auto [at, requests] = transfers_->advance(agenda_.next());
  for (const Number request : requests) agenda_.push(std::max(agenda_.now(), at), Kind::kTransferred, request);
}

}  // namespace astra::serving
