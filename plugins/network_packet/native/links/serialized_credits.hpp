// Credits on a narrow link, as Garnet's serializers send them: in parts, one a cycle.
//
// Garnet keeps the parts that wait for the wires in a binary heap by time. Parts of one credit have the same time, so they leave in the
// order in which the heap happens to give them out, and the part that means "the virtual channel is idle again" need not be the last. The
// other end counts the parts of a virtual channel: each full count is a credit, and that part is one at once, whatever the count, which
// begins anew. Parts that it has overtaken count for the next packet, so a virtual channel may come to more credits than it has buffers.
//
// The order in the heap also depends on whether a credit comes before or after the wires take a part in the same cycle. Garnet handles
// requests of a cycle in the reverse of their order, and each of the two is requested by another unit
// before: see CreditSerializers::comes_before_part.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"

namespace astra::packet {

class SerializedCredits {
 public:
  SerializedCredits(int parts, int vcs) : parts_(parts), tracks_(index(vcs)) {}

  // A credit comes to the serializer in cycle `now`; its parts can leave from `time` on.
  void push(Cycle now, Cycle time, std::uint16_t vc, bool frees) {
    pushed_before_ = pushed_;
    pushed_ = now;
    for (int i = 0; i < parts_; ++i) insert({time, vc, frees && i == parts_ - 1});
  }

  // Lets parts leave up to cycle `until`; calls whole(cycle, vc, frees) for the last part of each credit.
  template <class Whole>
  void run(Cycle until, Whole whole) {
    while (!heap_.empty()) {
      const Cycle leaves = next();
      if (leaves > until) return;
      last_ = leaves;
      const Part part = remove();
      Track& track = tracks_[part.vc];
      ++track.count;
      if (!part.frees && track.count < parts_) continue;
      track.overtaken += parts_ - track.count;
      track.count = 0;
      whole(leaves, part.vc, part.frees);
    }
  }

  bool empty() const { return heap_.empty(); }
  // When the next part leaves.
  Cycle next() const { return heap_.front().time > last_ ? heap_.front().time : last_ + 1; }
  // The last cycle before `cycle` in which a credit came to the serializer.
  Cycle pushed_before(Cycle cycle) const { return pushed_ < cycle ? pushed_ : pushed_before_; }
  int parts() const { return parts_; }
  // Parts of a virtual channel that are no credit yet.
  std::int64_t under_way(int vc) const {
    std::int64_t parts = at(tracks_, vc).count;
    for (const Part& part : heap_) parts += part.vc == vc;
    return parts;
  }
  // Parts that credits of a virtual channel came without, since the beginning.
  std::int64_t overtaken(int vc) const { return at(tracks_, vc).overtaken; }

  void shift(Cycle later) {
    last_ += later;
    pushed_ += later;
    pushed_before_ += later;
    for (Part& part : heap_) part.time += later;
  }

  template <class Put>
  void each(Cycle now, Put put) const {
    put(last_ >= now ? last_ - now : -1);
    put(wide(heap_.size()));
    for (const Part& part : heap_) put((part.time - now) * 131072 + part.vc * 2 + part.frees);
    for (const Track& track : tracks_) put(track.count);
    if (heap_.empty()) return;
    put(now - pushed_);
    put(now - pushed_before_);
  }

 private:
  struct Part {
    Cycle time;
    std::uint16_t vc;
    bool frees;
  };
  struct Track {
    int count = 0;  // parts that have come since the last credit
    std::int64_t overtaken = 0;
  };

  // A binary heap, earliest first, that moves equal elements as the C++ library used there does (bottom-up deletion).
  void insert(Part part) {
    heap_.push_back(part);
    rise(heap_.size() - 1, part);
  }

  void rise(std::size_t hole, Part part) {
    while (hole > 0 && heap_[(hole - 1) / 2].time > part.time) {
      heap_[hole] = heap_[(hole - 1) / 2];
      hole = (hole - 1) / 2;
    }
    heap_[hole] = part;
  }

  Part remove() {
    const Part first = heap_.front();
    const Part moved = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return first;
    std::size_t hole = 0;
    while (2 * hole + 2 < size) {
      std::size_t child = 2 * hole + 2;
      if (heap_[child].time > heap_[child - 1].time) --child;
      heap_[hole] = heap_[child];
      hole = child;
    }
    if (2 * hole + 2 == size) {
      heap_[hole] = heap_[2 * hole + 1];
      hole = 2 * hole + 1;
    }
    rise(hole, moved);
    return first;
  }

  int parts_;
  std::vector<Part> heap_;
  std::vector<Track> tracks_;
  Cycle last_ = -1;    // when the last part left
  Cycle pushed_ = -3;  // when the last credits came: before anything could
  Cycle pushed_before_ = -3;
};

}  // namespace astra::packet
