// What waits for what, once nothing moves any more.

#include <map>

#include "domain.hpp"

namespace astra::packet {

// Every channel whose first flit cannot go on waits for the channel where that flit wants to go. Following that from any of them leads
// round a cycle, or to a channel whose receiver holds nothing.
std::vector<std::string> Domain::waiting() const {
  std::map<int, std::pair<int, int>> waits;  // channel: the channel it waits for, flits it holds
  for (int c = 0; c < shape_->channels(); ++c) {
    each_occupied(c, [&](int number) {
      const ReceiverVc& vc = receivers_[vc_index(c, number)];
      if (vc.out < 0) return;
      const bool blocked = vc.out_vc < 0 || credits_[vc_index(vc.out, vc.out_vc)] == 0;
      auto& entry = waits[c];
      if (blocked) entry.first = vc.out;
      entry.second += static_cast<int>(vc.buffer.size());
    });
  }
  auto line = [&](int c) {
    const auto& [next, flits] = waits.at(c);
    return shape_->name[static_cast<std::size_t>(c)] + " (" + std::to_string(flits) + " flits) waits for " +
           shape_->name[static_cast<std::size_t>(next)];
  };
  for (const auto& [start, ignored] : waits) {
    std::vector<int> path;
    int c = start;
    while (waits.contains(c)) {
      for (std::size_t i = 0; i < path.size(); ++i) {
        if (path[i] != c) continue;
        std::vector<std::string> cycle;
        for (; i < path.size(); ++i) cycle.push_back(line(path[i]));
        return cycle;
      }
      path.push_back(c);
      c = waits.at(c).first;
    }
  }
  std::vector<std::string> all;
  for (const auto& [c, ignored] : waits) all.push_back(line(c));
  return all;
}

}  // namespace astra::packet
