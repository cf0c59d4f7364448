#include "kv_cache.hpp"

#include <algorithm>
#include <cstddef>

namespace astra::serving {

KvCache::KvCache(std::int64_t blocks, Tokens block_tokens, bool prefix_caching, const std::vector<std::int64_t>& contents)
    : blocks_(blocks), free_blocks_(0), block_tokens_(block_tokens), prefix_caching_(prefix_caching), contents_(contents) {
  give_back(blocks);
}

KvCache::Key KvCache::key(const Sequence& sequence, std::int64_t position) const {
  const std::int64_t last = (position + 1) * block_tokens_ - 1;
  if (last < sequence.shared) return {contents_[static_cast<std::size_t>(sequence.content + last / sequence.content_tokens)], position};
  return {-1 - std::int64_t{sequence.number}, position};
}

const std::vector<std::int32_t>& KvCache::matching(const Sequence& sequence) {
  matching_.clear();
  if (prefix_caching_ && (sequence.content_tokens || sequence.preemptions)) find_longest(sequence, (sequence.total - 1) / block_tokens_);
  return matching_;
}

std::int64_t KvCache::match_tokens(const Sequence& sequence) {
  if (!prefix_caching_ || !sequence.content_tokens) return 0;
  matching_.clear();
  find_longest(sequence, (sequence.input - 1) / block_tokens_);
  return static_cast<std::int64_t>(matching_.size()) * block_tokens_;
}

void KvCache::find_longest(const Sequence& sequence, std::int64_t most) {
  for (std::int64_t position = 0; position < most; ++position) {
    const auto entry = block_of_.find(key(sequence, position));
    if (entry == block_of_.end()) break;
    matching_.push_back(entry->second);
  }
}

bool KvCache::can_hold(const std::vector<std::int32_t>& matching, Tokens tokens) const {
  const auto matched = static_cast<std::int64_t>(matching.size());
  const std::int64_t more = blocks_for(matched * block_tokens_ + tokens) - matched;
  const auto reused = std::count_if(matching.begin(), matching.end(),
                                    [this](std::int32_t each) { return entries_[static_cast<std::size_t>(each)].is_free; });
  return more <= free_blocks_ - reused;
}

void KvCache::share(Sequence& sequence, const std::vector<std::int32_t>& matching) {
  for (const std::int32_t block : matching) {
    Entry& entry = entries_[static_cast<std::size_t>(block)];
    if (entry.is_free) {
      remove_free(block);
      --free_blocks_;
      entry.holders = 1;
    } else {
      ++entry.holders;
    }
  }
  sequence.blocks.insert(sequence.blocks.end(), matching.begin(), matching.end());
  sequence.capacity = static_cast<Tokens>(static_cast<std::int64_t>(sequence.blocks.size()) * block_tokens_);
}

bool KvCache::grow(Sequence& sequence, Tokens tokens) {
  if (tokens > sequence.capacity) {
    const std::int64_t more = blocks_for(tokens - sequence.capacity);
    if (more > free_blocks_) return false;
    take(more);
    sequence.capacity += static_cast<Tokens>(more * block_tokens_);
  }
  if (sequence.content_tokens) add_contents(sequence, std::min(tokens, sequence.shared) / block_tokens_);
  return true;
}

void KvCache::take(std::int64_t count) {
  free_blocks_ -= count;
  while (count) {
    const std::int32_t number = first_free_;
    Entry& entry = entries_[static_cast<std::size_t>(number)];
    if (entry.size > count) {
      entry.size -= count;
      return;
    }
    remove_free(number);
    count -= entry.size;
    if (entry.has_content) {
      block_of_.erase(entry.key);
    } else if (number == last_run_) {
      last_run_ = kNone;
    }
    unused_.push_back(number);
  }
}

void KvCache::release(Sequence& sequence, bool keep) {
  if (keep) add_contents(sequence, sequence.computed / block_tokens_);
  give_back(sequence.capacity / block_tokens_ - static_cast<std::int64_t>(sequence.blocks.size()));
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) {
    if (*block == kSame) {
      give_back(1);
      continue;
    }
    if (--entries_[static_cast<std::size_t>(*block)].holders == 0) {
      append_free(*block);
      ++free_blocks_;
      last_run_ = kNone;
    }
  }
  sequence.blocks = {};
  sequence.capacity = 0;
}

void KvCache::give_back(std::int64_t count) {
  if (!count) return;
  if (last_run_ == kNone) {
    last_run_ = make_entry();
    entries_[static_cast<std::size_t>(last_run_)].size = 0;
    append_free(last_run_);
  }
  entries_[static_cast<std::size_t>(last_run_)].size += count;
  free_blocks_ += count;
}

void KvCache::add_contents(Sequence& sequence, std::int64_t full) {
  if (!prefix_caching_) return;
  for (auto position = static_cast<std::int64_t>(sequence.blocks.size()); position < full; ++position) {
    const Key content = key(sequence, position);
    const auto [place, is_new] = block_of_.try_emplace(content, kSame);
    std::int32_t block = kSame;
    if (is_new) {
      block = make_entry();
      place->second = block;
      Entry& entry = entries_[static_cast<std::size_t>(block)];
      entry.key = content;
      entry.has_content = true;
      entry.holders = 1;
    }
    sequence.blocks.push_back(block);
  }
}

std::int32_t KvCache::make_entry() {
  if (unused_.empty()) {
    entries_.emplace_back();
    return static_cast<std::int32_t>(entries_.size() - 1);
  }
  const std::int32_t number = unused_.back();
  unused_.pop_back();
  entries_[static_cast<std::size_t>(number)] = Entry{};
  return number;
}

void KvCache::append_free(std::int32_t number) {
  Entry& entry = entries_[static_cast<std::size_t>(number)];
  entry.is_free = true;
  entry.before = last_free_;
  entry.after = kNone;
  (last_free_ == kNone ? first_free_ : entries_[static_cast<std::size_t>(last_free_)].after) = number;
  last_free_ = number;
}

void KvCache::remove_free(std::int32_t number) {
  Entry& entry = entries_[static_cast<std::size_t>(number)];
  entry.is_free = false;
  (entry.before == kNone ? first_free_ : entries_[static_cast<std::size_t>(entry.before)].after) = entry.after;
  (entry.after == kNone ? last_free_ : entries_[static_cast<std::size_t>(entry.after)].before) = entry.before;
}

}  // namespace astra::serving
