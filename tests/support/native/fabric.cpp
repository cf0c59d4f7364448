// The fabric room in C++ behind functions of C, so that tests hold it against the one in Python.
#include <astra_sim/fabric/destination_routes.hpp>
#include <astra_sim/fabric/routes.hpp>
#include <astra_sim/fabric/ties.hpp>
#include <vector>

using namespace astra::fabric;

namespace {

struct Room {
  Room(int nodes, int hosts, std::vector<Link> links, HostForwarding forwarding, LinkOrder order, std::vector<int> numbers)
      : links(std::move(links)),
        numbers(std::move(numbers)),
        graph(nodes, hosts, this->links, order),
        routes(graph, forwarding),
        every(nodes, hosts, this->links, this->numbers, {}) {}

  std::vector<Link> links;
  std::vector<int> numbers;
  Graph graph;
  Routes routes;
  DestinationRoutes every;
};

}  // namespace

extern "C" {

Room* make(int nodes, int hosts, int count, const int* links, int forwarding, int order, const int* numbers) {
  std::vector<Link> listed;
  for (int link = 0; link < count; ++link) listed.push_back({links[3 * link], links[3 * link + 1], links[3 * link + 2]});
  std::vector<int> numbered(numbers, numbers ? numbers + hosts : numbers);
  return new Room(nodes, hosts, listed, static_cast<HostForwarding>(forwarding), static_cast<LinkOrder>(order), numbered);
}

void destroy(Room* room) { delete room; }

void set_up(Room* room, const bool* up) { room->routes.set_up(std::vector<bool>(up, up + room->graph.links())); }

// The set of a node to a destination, for messages from wherever. Returns how many links it has.
int next_links(Room* room, int node, int destination, int* links) {
  const NextLinks all = room->routes.next_links(destination);
  std::copy(all[node].begin(), all[node].end(), links);
  return static_cast<int>(all[node].size());
}

// The path of a message by a rule: first, by destination, or by a hash. Returns how many links it has; -1: there is none.
int path(Room* room, int source, int destination, int rule, int seed, int* links) {
  const Row row = room->routes.row(source, destination);
  if (!row) return -1;
  int count = 0;
  const auto visit = [&](int link) { links[count++] = link; };
  if (rule == 0) room->routes.walk(row, source, TieFirst(), visit);
  if (rule == 1) room->routes.walk(row, source, TieByDestination(room->graph, room->numbers, true), visit);
  if (rule == 2) room->routes.walk(row, source, TieByHash(source, destination, static_cast<std::uint64_t>(seed)), visit);
  return count;
}

// Adds what each link carries of a message in equal parts. Returns whether there is a route.
bool spread(Room* room, int source, int destination, double* loads) {
  const Row row = room->routes.row(source, destination);
  if (!row) return false;
  room->routes.spread(row, source, 1.0, [&](int link, int count, double here, double& there) {
    loads[link] += here / count;
    there += here / count;
  });
  return true;
}

int first_link(Room* room, int node, int destination) { return room->every.next_link(node, destination); }
}
