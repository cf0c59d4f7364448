// When flows end in SimGrid, for benchmarks/solvers.py: simgrid_flows FLOWS ENDS.
//
// FLOWS has the number of hosts, that of links, and the bytes per second of each link; then that of flows, and of each its source,
// its destination, its bytes, how many links it takes and their numbers. All begin at time 0. ENDS gets the seconds at which they end.
// The model is CM02: max-min shares, without the factors, the windows and the acknowledgements of TCP; links have no latency.
#include <fstream>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  for (const char* option : {"network/model:CM02", "network/optim:Full", "network/crosstraffic:0", "network/TCP-gamma:1e30",
                             "surf/precision:1e-13", "maxmin/precision:1e-9"})
    s4u::Engine::set_config(option);
  if (argc != 3) {
    std::cerr << "expected two files: flows, and where their ends are written\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  std::size_t hosts = 0, links = 0, flows = 0;
  file >> hosts >> links;
  s4u::NetZone* zone = s4u::create_full_zone("zone");
  std::vector<s4u::Host*> host;
  for (std::size_t number = 0; number < hosts; ++number) host.push_back(zone->create_host("host" + std::to_string(number), 1e9));
  std::vector<s4u::Link*> link;
  for (std::size_t number = 0; number < links; ++number) {
    double bandwidth = 0;
    file >> bandwidth;
    link.push_back(zone->create_link("link" + std::to_string(number), bandwidth)->set_latency(0)->seal());
  }
  struct Flow {
    std::size_t source, destination;
    std::uint64_t bytes;
  };
  file >> flows;
  std::vector<Flow> all(flows);
  for (Flow& flow : all) {
    std::size_t count = 0;
    file >> flow.source >> flow.destination >> flow.bytes >> count;
    std::vector<s4u::LinkInRoute> route;
    for (std::size_t number = 0; count > 0 && file >> number; --count) route.emplace_back(link.at(number));
    zone->add_route(host.at(flow.source)->get_netpoint(), host.at(flow.destination)->get_netpoint(), nullptr, nullptr, route, false);
  }
  if (!file) {
    std::cerr << argv[1] << " is cut off\n";
    return 2;
  }
  zone->seal();

  std::vector<double> ends;
  s4u::Actor::create("all", host.front(), [&] {
    std::vector<s4u::CommPtr> sent;
    for (const Flow& flow : all) sent.push_back(s4u::Comm::sendto_async(host[flow.source], host[flow.destination], flow.bytes));
    for (const s4u::CommPtr& each : sent) each->wait();
    for (const s4u::CommPtr& each : sent) ends.push_back(each->get_finish_time());
  });
  engine.run();

  std::ofstream out(argv[2]);
  out.precision(17);
  double last = 0;
  for (const double end : ends) {
    out << end << '\n';
    last = std::max(last, end);
  }
  std::cout.precision(12);
  std::cout << "last end: " << last * 1e6 << " us\n";
  return ends.size() == flows && out ? 0 : 1;
}
