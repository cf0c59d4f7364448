// The blocks of keys and values of an instance, with the contents that freed ones keep: kv_cache.KvCache of Python.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "request.hpp"

namespace astra::serving {

class KvCache {
 public:
  // `contents` are the ids that the requests of a run share with others.
  KvCache(std::int64_t blocks, Tokens block_tokens, bool prefix_caching, const std::vector<std::int64_t>& contents);

  std::int64_t blocks() const { return blocks_; }
  std::int64_t free_blocks() const { return free_blocks_; }
  std::int64_t used_blocks() const { return blocks_ - free_blocks_; }
  Tokens block_tokens() const { return block_tokens_; }

  // Blocks with the longest cached prefix of a sequence, of which at least one token remains to be computed; valid until the next call.
  const std::vector<std::int32_t>& matching(const Sequence& sequence);
  // Tokens of a request's prompt that are cached.
  std::int64_t match_tokens(const Sequence& sequence);
  bool can_hold(const std::vector<std::int32_t>& matching, Tokens tokens) const;
  void share(Sequence& sequence, const std::vector<std::int32_t>& matching);
  bool grow(Sequence& sequence, Tokens tokens);
  void release(Sequence& sequence, bool keep = false);
  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kSame = -1;  // a block of a sequence whose content another block has, which is found instead

  struct Key {
    std::int64_t content;
    std::int64_t position;
    bool operator==(const Key&) const = default;
  };
  struct Mixed {
    std::size_t operator()(const Key& key) const {
      std::uint64_t mixed = static_cast<std::uint64_t>(key.content) * 0x9e3779b97f4a7c15u;
      mixed = (mixed ^ mixed >> 29 ^ static_cast<std::uint64_t>(key.position)) * 0xbf58476d1ce4e5b9u;
      return static_cast<std::size_t>(mixed ^ mixed >> 32);
    }
  };
  // A block with a content, or a run of free blocks without; free ones are in a list in order of use.
  struct Entry {
    Key key{};
    std::int64_t size = 1;
    std::int32_t holders = 0;
    std::int32_t before = kNone;
    std::int32_t after = kNone;
    bool has_content = false;
    bool is_free = false;
  };

  Key key(const Sequence& sequence, std::int64_t position) const;
  void find_longest(const Sequence& sequence, std::int64_t most);
  void take(std::int64_t count);
  void give_back(std::int64_t count);
  void add_contents(Sequence& sequence, std::int64_t full);
  std::int32_t make_entry();
  void append_free(std::int32_t number);
  void remove_free(std::int32_t number);

  std::int64_t blocks_;
  std::int64_t free_blocks_;
  Tokens block_tokens_;
  bool prefix_caching_;
  const std::vector<std::int64_t>& contents_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> unused_;
  std::int32_t first_free_ = kNone;
  std::int32_t last_free_ = kNone;
  std::int32_t last_run_ = kNone;  // the last entry of the list, if that is a run
  std::unordered_map<Key, std::int32_t, Mixed> block_of_;
  std::vector<std::int32_t> matching_;
};

}  // namespace astra::serving
