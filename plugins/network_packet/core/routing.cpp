// Which way a packet goes, and which virtual channels it may take there.

#include "domain.hpp"

namespace astra::packet {

namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64* (Marsaglia, Vigna)
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1DULL;
}

}  // namespace

// Where the packet at the front of a virtual channel goes on.
void Domain::set_route(int r, int in, ReceiverVc& vc, Packet& packet) {
    vc.out = route(r, in, packet);
    vc.out_port = static_cast<std::int16_t>(link(vc.out).source_port);
    const auto [first, end] = allowed_vcs(vc.out, packet);
    vc.first_vc = static_cast<std::int16_t>(first);
    vc.end_vc = static_cast<std::int16_t>(end);
    vc.out_vc = -1;
}

// The output channel of a packet whose head came in through channel `in`, or a node's own interface.
int Domain::route(int r, int in, Packet& packet) {
    const Shape& shape = *shape_;
    const RouterSpec& router = shape.router[static_cast<std::size_t>(r)];
    int out = shape.first_hop(r, packet.destination, packet.vnet);
    const Link* way = &link(out);
    if (way->dimension < 0) return out;
    const Link& from = link(in);
    if (!router.spray.empty()) {
        out = router.spray[routers_[static_cast<std::size_t>(r)].sprayed++ % router.spray.size()];
    } else if (shape.rules.choice == RouteChoice::first || !shape.several_ways(r, packet.destination)) {
        // There is nothing to choose.
    } else if (shape.rules.choice == RouteChoice::random_entry && from.dimension != way->dimension) {
        const std::vector<int> all = shape.next_hops(r, packet.destination);
        if (all.size() > 1) out = all[next_random(routers_[static_cast<std::size_t>(r)].random) >> 33 & (all.size() - 1)];
    } else if (shape.rules.choice == RouteChoice::adaptive) {
        std::int64_t most = -1;
        for (int candidate : shape.next_hops(r, packet.destination)) {
            take_credits(candidate, now_);
            std::int64_t credits = 0;
            for (int vc = 0; vc < shape.vc_count(candidate); ++vc) {
                credits += credits_[vc_index(candidate, vc)] + (has_bit(idle(candidate), vc) ? shape.rules.buffers : 0);
            }
            if (credits > most) {
                most = credits;
                out = candidate;
            }
        }
    }
    way = &link(out);
    ++packet.hops;
    if (way->ring && shape.rules.vc_classes != VcClasses::none) {
        const auto d = static_cast<std::size_t>(way->dimension);
        const RouterSpec& target = shape.router[static_cast<std::size_t>(shape.node_router[static_cast<std::size_t>(packet.destination)])];
        if (from.dimension != way->dimension) {
            const bool upper = shape.rules.vc_classes == VcClasses::at_entry && target.coordinates[d] < router.coordinates[d];
            packet.vc_class = upper ? 1 : 0;
        }
        if (shape.rules.vc_classes == VcClasses::at_crossing && way->dateline) packet.vc_class = 1;
    }
    return out;
}

// First and past-the-last virtual channel of channel `c` that a packet may take.
std::pair<int, int> Domain::allowed_vcs(int c, const Packet& packet) const {
    const Link& way = link(c);
    const int vcs = shape_->rules.vcs;
    const int first = (packet.vnet - way.first_vnet) * vcs;
    if (!way.ring || shape_->rules.vc_classes == VcClasses::none) return {first, first + vcs};
    return packet.vc_class == 0 ? std::pair{first, first + vcs - vcs / 2} : std::pair{first + vcs / 2, first + vcs};
}

}  // namespace astra::packet
