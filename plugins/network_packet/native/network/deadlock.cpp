#include "network/deadlock.hpp"

#include <map>
#include <utility>

namespace astra::packet {

// Every channel whose first flit cannot go on waits for the channel where that flit wants to go. Following that from any of them leads
// round a cycle, or to a channel whose receiver holds nothing.
std::vector<std::string> waiting(const Shape& shape, const CreditChannels& credits, const InputBuffers& inputs) {
  std::map<int, std::pair<int, int>> waits;  // channel: the channel it waits for, flits it holds
  for (int c = 0; c < shape.channels(); ++c) {
    for (int number = 0; number < shape.vc_count(c); ++number) {
      const InputVc& vc = inputs.vc(c, number);
      if (vc.buffer.empty() || vc.out < 0) continue;
      const bool blocked = vc.out_vc < 0 || credits.count(vc.out, vc.out_vc) == 0;
      auto& entry = waits[c];
      if (blocked) entry.first = vc.out;
      entry.second += count_of(vc.buffer);
    }
  }
  auto line = [&](int c) {
    const auto& [next, flits] = waits.at(c);
    return at(shape.name, c) + " (" + std::to_string(flits) + " flits) waits for " + at(shape.name, next);
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
