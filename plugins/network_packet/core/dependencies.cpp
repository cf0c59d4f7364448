// What a packet holds while it waits for what. Routes whose dependencies form a circle can deadlock; classes of virtual channels, which a
// packet passes upwards only, cut the circles (Dally and Seitz 1987).

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "shape.hpp"

namespace astra::packet {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

using Graph = std::vector<std::vector<int>>;  // by vertex, those that follow

// Vertices without which the graph has no circle: those where a depth-first search comes back to its own path. Not looked at: `removed`.
std::vector<int> circle_heads(const Graph& graph, const std::vector<bool>& removed) {
    enum class Seen : std::uint8_t { no, on_path, done };
    std::vector<Seen> seen(graph.size(), Seen::no);
    std::vector<bool> is_head(graph.size(), false);
    std::vector<std::pair<int, std::size_t>> path;  // vertex, and the next of its followers to look at
    for (int start = 0; start < static_cast<int>(graph.size()); ++start) {
        if (seen[at(start)] != Seen::no || removed[at(start)]) continue;
        seen[at(start)] = Seen::on_path;
        path.emplace_back(start, 0);
        while (!path.empty()) {
            auto& [vertex, next] = path.back();
            if (next == graph[at(vertex)].size()) {
                seen[at(vertex)] = Seen::done;
                path.pop_back();
                continue;
            }
            const int follower = graph[at(vertex)][next++];
            if (removed[at(follower)] || seen[at(follower)] == Seen::done) continue;
            if (seen[at(follower)] == Seen::on_path) {
                is_head[at(follower)] = true;
                continue;
            }
            seen[at(follower)] = Seen::on_path;
            path.emplace_back(follower, 0);
        }
    }
    std::vector<int> heads;
    for (int vertex = 0; vertex < static_cast<int>(graph.size()); ++vertex) {
        if (is_head[at(vertex)]) heads.push_back(vertex);
    }
    return heads;
}

}  // namespace

template <class Visit>
void Shape::each_way(int d, int r, int wanted, Visit visit) const {
    const RouterSpec& spec = router[at(r)];
    if (!spec.spray.empty()) {
        for (int c : spec.spray) visit(c);
    } else if (rules.choice == RouteChoice::first) {
        const std::uint16_t place = table_[at(d)][at(r * sizes[at(d)] + wanted)] & kPlace;
        if (place < kNoWay) visit(spec.outputs[place]);
    } else {
        each_shortest(d, r, wanted, [&](std::size_t place) { visit(spec.outputs[place]); });
    }
}

// Rings have their datelines. Elsewhere, those given are kept if there are circles at all, and some are added if these leave any.
void Shape::make_classes() {
    classes_.assign(sizes.size(), 1);
    if (rules.vc_classes == VcClasses::none && !rules.bubble) return;
    for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
        std::vector<bool> datelines(channel.size(), false);
        bool ring = false;
        for (int c = 0; c < channels(); ++c) {
            if (channel[at(c)].dimension != d) continue;
            ring = ring || channel[at(c)].ring;
            datelines[at(c)] = channel[at(c)].dateline;
        }
        if (ring) {
            classes_[at(d)] = rules.bubble ? 1 : 2;
            continue;
        }
        const Graph graph = followers(d);
        if (circle_heads(graph, std::vector<bool>(channel.size(), false)).empty()) continue;
        for (int c : circle_heads(graph, datelines)) channel[at(c)].dateline = true;
        classes_[at(d)] = 1 + most_datelines(d);
        if (classes_[at(d)] > std::numeric_limits<std::uint8_t>::max()) throw std::invalid_argument("the routes need too many virtual channels");
    }
}

// By channel of a dimension, the channels that packets may take next in it.
std::vector<std::vector<int>> Shape::followers(int d) const {
    Graph graph(channel.size());
    std::vector<int> seen_for(channel.size(), -1);
    std::vector<int> open;
    for (int wanted = 0; wanted < sizes[at(d)]; ++wanted) {
        auto take = [&](int c) {
            if (seen_for[at(c)] == wanted) return;
            seen_for[at(c)] = wanted;
            open.push_back(c);
        };
        for (int r : node_router) {
            if (router[at(r)].coordinates[at(d)] != wanted) each_way(d, r, wanted, take);
        }
        while (!open.empty()) {
            const int c = open.back();
            open.pop_back();
            const int r = channel[at(c)].sink;
            if (router[at(r)].coordinates[at(d)] == wanted) continue;
            each_way(d, r, wanted, [&](int next) {
                std::vector<int>& known = graph[at(c)];
                if (std::find(known.begin(), known.end(), next) == known.end()) known.push_back(next);
                take(next);
            });
        }
    }
    return graph;
}

// Datelines that a packet takes in a dimension, at most.
int Shape::most_datelines(int d) const {
    const int size = sizes[at(d)];
    int most = 0;
    std::vector<int> datelines(router.size());
    for (int wanted = 0; wanted < size; ++wanted) {
        auto far = [&](int r) { return distance_[at(d)][at(r * size + wanted)]; };
        std::vector<int> nearest_first;
        for (int r = 0; r < routers(); ++r) {
            datelines[at(r)] = 0;
            if (far(r) > 0) nearest_first.push_back(r);
        }
        std::stable_sort(nearest_first.begin(), nearest_first.end(), [&](int a, int b) { return far(a) < far(b); });
        for (int r : nearest_first) {
            each_way(d, r, wanted, [&](int c) {
                datelines[at(r)] = std::max(datelines[at(r)], datelines[at(channel[at(c)].sink)] + channel[at(c)].dateline);
            });
        }
        for (int r : node_router) most = std::max(most, datelines[at(r)]);
    }
    return most;
}

// Follows the packets of every node and virtual network from all interfaces on, with every choice that routers have.
std::vector<Dependency> Shape::dependencies() const {
    std::vector<Dependency> found;
    for (int node = 0; node < nodes(); ++node) {
        for (int vnet = 0; vnet < rules.vnets; ++vnet) {
            std::vector<std::pair<int, int>> open;  // channel, class
            std::vector<bool> seen(channel.size() * 256, false);
            auto take = [&](int c, int vc_class) {
                const std::size_t place = at(c * 256 + vc_class);
                if (!seen[place]) open.emplace_back(c, vc_class);
                seen[place] = true;
            };
            for (int source = 0; source < nodes(); ++source) {
                const Lanes& lanes = lanes_of(source, vnet);
                for (int l = lanes.first; l < lanes.end(); ++l) take(lane[at(l)].out, 0);
            }
            while (!open.empty()) {
                const auto [in, before] = open.back();
                open.pop_back();
                const int r = channel[at(in)].sink;
                const int d = differing_dimension(r, node);
                if (d < 0) continue;
                each_way(d, r, router[at(node_router[at(node)])].coordinates[at(d)], [&, in = in, before = before](int out) {
                    const ChannelSpec& way = channel[at(out)];
                    if (vnet < way.first_vnet || vnet >= way.first_vnet + way.vnets) return;
                    const int after = next_class(in, out, node, before);
                    if (channel[at(in)].dimension >= 0) {
                        found.push_back({in, vcs_of(in, vnet, before).first, out, vcs_of(out, vnet, after).first});
                    }
                    take(out, after);
                });
            }
            std::sort(found.begin(), found.end());
            found.erase(std::unique(found.begin(), found.end()), found.end());
        }
    }
    return found;
}

}  // namespace astra::packet
