// Credits on a narrow link, as Garnet's serializers send them: in parts, one a cycle.
//
// Garnet keeps the parts that wait for the wires in a binary heap by time. Parts of one credit have the same time, so they leave in the order
// in which the heap happens to give them out, and the part that says "the virtual channel is idle again" need not be the last. The other
// end puts parts of a virtual channel together again by counting, and passes a credit on at once when that part comes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "flit.hpp"

namespace astra::packet {

class CreditParts {
public:
    CreditParts(int parts, int vcs) : parts_(parts), tracks_(static_cast<std::size_t>(vcs)) {}

    // A credit comes to the serializer; its parts can leave from `time` on.
    void push(Cycle time, std::uint16_t vc, bool frees) {
        Track& track = tracks_[vc];
        ++track.owed;
        track.freeing = track.freeing || frees;
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
            // The last credit of a packet waits for the part that frees.
            const bool full = track.count >= parts_ && track.owed > (track.freeing ? 1 : 0);
            if (!part.frees && !full) continue;
            track.count = 0;
            --track.owed;
            if (part.frees) track.freeing = false;
            whole(leaves, part.vc, part.frees);
        }
    }

    bool empty() const { return heap_.empty(); }
    // When the next part leaves.
    Cycle next() const { return heap_.front().time > last_ ? heap_.front().time : last_ + 1; }
    // Credits of a virtual channel that have not been passed on.
    int owed(int vc) const { return tracks_[static_cast<std::size_t>(vc)].owed; }

    void shift(Cycle later) {
        last_ += later;
        for (Part& part : heap_) part.time += later;
    }

    template <class Put>
    void each(Cycle now, Put put) const {
        put(last_ >= now ? last_ - now : -1);
        put(static_cast<std::int64_t>(heap_.size()));
        for (const Part& part : heap_) put((part.time - now) * 131072 + part.vc * 2 + part.frees);
        for (const Track& track : tracks_) put(track.count | static_cast<std::int64_t>(track.owed) << 32 | static_cast<std::int64_t>(track.freeing) << 31);
    }

private:
    struct Part {
        Cycle time;
        std::uint16_t vc;
        bool frees;
    };
    struct Track {
        int count = 0;  // parts that have come since the last credit
        int owed = 0;   // credits under way
        bool freeing = false;
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
    Cycle last_ = -1;
};

}  // namespace astra::packet
