#include "network.hpp"

#include <algorithm>

namespace astra::packet {

Network::Network(int npus, int vnets, std::int64_t clock_ps)
    : npus_(npus), vnets_(vnets), clock_ps_(clock_ps), places_(static_cast<std::size_t>(npus) * static_cast<std::size_t>(vnets)) {}

void Network::add_domain(std::shared_ptr<const Shape> shape, const std::vector<int>& npus) {
    const int number = static_cast<int>(domains_.size());
    for (const LaneSpec& lane : shape->lane) {
        const int npu = npus.at(static_cast<std::size_t>(lane.node));
        places_.at(static_cast<std::size_t>(npu * vnets_ + lane.vnet)) = {number, lane.node};
    }
    same_cycle_ = shape->rules.same_cycle;
    domains_.push_back(std::make_unique<Domain>(std::move(shape)));
}

// Where the queue names no virtual network, the one with the shortest way, and of several the first.
int Network::choose_vnet(int source, int destination, int queue) const {
    if (!dimensions_.empty()) {
        int last = 0;
        for (int d = 0; d < static_cast<int>(dimensions_.size()); ++d) {
            const auto [stride, size] = dimensions_[static_cast<std::size_t>(d)];
            if (source / stride % size != destination / stride % size) last = d;
        }
        return last;
    }
    if (queue >= 0) return queue < vnets_ ? queue : -1;
    int best = -1;
    int fewest = 0;
    for (int vnet = 0; vnet < vnets_; ++vnet) {
        const Place& from = place(source, vnet);
        const Place& to = place(destination, vnet);
        if (from.domain < 0 || from.domain != to.domain) continue;
        const int hops = domains_[static_cast<std::size_t>(from.domain)]->shape().hops(from.node, to.node, vnet);
        if (hops >= 0 && (best < 0 || hops < fewest)) {
            best = vnet;
            fewest = hops;
        }
    }
    return best;
}

void Network::inject(std::int64_t at, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) {
    const std::string what = "a message from NPU " + std::to_string(source) + " to NPU " + std::to_string(destination);
    if (source < 0 || source >= npus_ || destination < 0 || destination >= npus_) {
        throw RouteError(what + " has an end outside the platform of " + std::to_string(npus_) + " NPUs");
    }
    const int vnet = choose_vnet(source, destination, queue);
    const std::string in_queue = queue >= 0 ? " in queue " + std::to_string(queue) : "";
    if (vnet < 0) throw RouteError(what + in_queue + " has no way through the network");
    const Place& from = place(source, vnet);
    const Place& to = place(destination, vnet);
    if (from.domain < 0 || from.domain != to.domain) {
        throw RouteError(what + in_queue + " has no way: virtual network " + std::to_string(vnet) + " does not join them");
    }
    const Cycle cycle = (at + clock_ps_ - 1) / clock_ps_;
    if (cycle > now_) {
        later_.push({cycle, injected_++, number, bytes, source, destination, vnet});
    } else {
        send(now_, number, source, destination, vnet, bytes);
    }
}

// Hands a message to its interface in cycle `cycle`, which has been run.
void Network::send(Cycle cycle, std::uint64_t number, int source, int destination, int vnet, std::int64_t bytes) {
    domains_[static_cast<std::size_t>(place(source, vnet).domain)]->catch_up(cycle);
    bool awake = same_cycle_ && wake_senders_;
    for (int v = 0; same_cycle_ && v < vnets_ && !awake; ++v) {
        const Place& other = place(source, v);
        if (other.domain < 0) continue;
        Domain& domain = *domains_[static_cast<std::size_t>(other.domain)];
        domain.catch_up(cycle);
        awake = domain.awake(domain.shape().lane_of(other.node, v), cycle);
    }
    const Place& from = place(source, vnet);
    domains_[static_cast<std::size_t>(from.domain)]->inject(cycle, from.node, place(destination, vnet).node, vnet, bytes, number, awake);
}

Cycle Network::next_cycle() const {
    Cycle next = later_.empty() ? kNever : later_.top().cycle;
    for (const auto& domain : domains_) next = std::min(next, domain->next());
    return next;
}

bool Network::advance(std::int64_t until) {
    arrived.clear();
    while (true) {
        const Cycle next = next_cycle();
        if (next == kNever) {
            if (until == kNoLimit) report_deadlock();
            return false;
        }
        if (next > until / clock_ps_) return false;
        now_ = next;
        for (const auto& domain : domains_) {
            if (domain->next() == next) domain->run(next, arrived);
        }
        while (!later_.empty() && later_.top().cycle == next) {
            const Later message = later_.top();
            later_.pop();
            send(next, message.number, message.source, message.destination, message.vnet, message.bytes);
        }
        if (!arrived.empty()) {
            time = next * clock_ps_;
            std::sort(arrived.begin(), arrived.end());
            return true;
        }
    }
}

std::int64_t Network::next_event() const {
    const Cycle next = next_cycle();
    return next == kNever ? kNoLimit : next * clock_ps_;
}

std::string Network::check() const {
    for (const auto& domain : domains_) {
        std::string problem = domain->check();
        if (!problem.empty()) return problem;
    }
    return "";
}

// Nothing to report if no message is under way.
void Network::report_deadlock() const {
    std::int64_t messages = 0;
    std::vector<std::string> lines;
    for (const auto& domain : domains_) {
        if (domain->outstanding() == 0) continue;
        messages += domain->outstanding();
        if (lines.empty()) lines = domain->waiting();
    }
    if (messages == 0) return;
    std::string text = "the network is deadlocked: " + std::to_string(messages) + " messages cannot arrive, and nothing moves";
    for (const std::string& line : lines) text += "\n  " + line;
    throw Deadlock(text);
}

}  // namespace astra::packet
