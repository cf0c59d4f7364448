#include "network/shape.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace astra::packet {

namespace {

constexpr Cycle kLongestRhythm = 1'000'000'000;
constexpr std::int64_t kMostVcs = 32767;           // of a link: their numbers have 16 bits (InputVc)
constexpr std::int64_t kMostVcsInAll = 1LL << 27;  // 8 GiB of input buffers
constexpr Cycle kLook = 64;                        // sources of synthetic traffic are looked at this often

}  // namespace

Shape::Shape(Rules arguments, std::vector<RouterSpec> routers, std::vector<int> dimension_sizes, std::vector<int> routers_of_nodes)
    : rules(arguments),
      router(std::move(routers)),
      sizes(std::move(dimension_sizes)),
      node_router(std::move(routers_of_nodes)),
      routes({rules, router, channel, sizes, node_router}),
      routers_(count_of(router)),
      injection_ports_of_(node_router.size() * index(rules.vnets)) {}

int Shape::add_channel(const ChannelSpec& spec, std::string called) {
  const int number = channels();
  if (is_router(spec.source)) at(router, spec.source).outputs.push_back(number);
  if (is_router(spec.sink)) at(router, spec.sink).inputs.push_back(number);
  channel.push_back(spec);
  name.push_back(std::move(called));
  return number;
}

void Shape::add_injection_port(int node, int vnet, ChannelSpec to_router, ChannelSpec from_router) {
  const int number = injection_ports();
  InjectionPortSpec spec{node, vnet, -1, -1};
  to_router.source = routers() + number;
  to_router.sink = from_router.source = at(node_router, node);
  from_router.sink = routers() + number;
  spec.out = add_channel(to_router, "interface of node " + std::to_string(node));
  spec.in = add_channel(from_router, "interface at node " + std::to_string(node));
  injection_port.push_back(spec);
  for (int v = 0; v < rules.vnets; ++v) {
    const ChannelSpec& out = at(channel, spec.out);
    if (v < out.first_vnet || v >= out.first_vnet + out.vnets) continue;
    InjectionPorts& injection_ports = at(injection_ports_of_, node * rules.vnets + v);
    if (injection_ports.count++ == 0) injection_ports.first = number;
  }
}

Dividers::Dividers(const Shape& shape, const std::vector<int>& of_routers) {
  if (of_routers.size() != shape.router.size()) throw std::invalid_argument("every router needs a divider");
  if (std::all_of(of_routers.begin(), of_routers.end(), [](int k) { return k == 1; })) return;
  of_unit.assign(of_routers.begin(), of_routers.end());
  for (Cycle k : of_unit) {
    if (k < 1) throw std::invalid_argument("a divider is at least 1");
    if (rhythm != kNever) rhythm = std::lcm(rhythm, k);
    if (rhythm > kLongestRhythm) rhythm = kNever;
  }
  for (const InjectionPortSpec& spec : shape.injection_port) of_unit.push_back(at(of_routers, at(shape.node_router, spec.node)));
}

void Shape::make_routes() {
  number_ports();
  routes.make();
}

namespace {

// Cycles in which a unit handles its pending work, at most.
Cycle handling(const Rules& rules) {
  return rules.router_latency + rules.switch_traversal() + rules.routing_delay + rules.credit_delay + rules.interface_credit_delay();
}

}  // namespace

void Shape::finish(int vcs) {
  for (int classes : vc_classes()) {
    if (rules.vc_classes() != VcClasses::none && classes > vcs) throw std::invalid_argument("there are more classes than virtual channels");
  }
  std::int64_t of_link = 0;
  std::int64_t in_all = 0;
  for (const ChannelSpec& spec : channel) {
    of_link = std::max(of_link, wide(spec.vnets) * vcs);
    in_all += wide(spec.vnets) * vcs;
  }
  auto check = [](const char* who, std::int64_t count, std::int64_t most) {
    if (count <= most) return;
    throw std::invalid_argument(who + (" have " + std::to_string(count)) + " virtual channels; expected at most " + std::to_string(most) +
                                ": give a smaller vcs, or larger flit_bytes and packet_bytes, which need fewer");
  };
  check("the virtual networks of a link", of_link, kMostVcs);
  check("all links together", in_all, kMostVcsInAll);
  rules.vcs = vcs;
  make_links();
  for (const ChannelSpec& spec : channel) {
    const Cycle wires = spec.latency.cycles + spec.flit_time.cycles + 2 * spec.serializer + 4;
    horizon = std::max(horizon, 2 * wires + handling(rules));
  }
  if (dividers.of_unit.empty()) return;
  const Cycle slowest = *std::max_element(dividers.of_unit.begin(), dividers.of_unit.end());
  horizon += kLook + slowest * (4 + handling(rules));
}

void Shape::number_ports() {
  for (RouterSpec& spec : router) {
    auto by_sink = [this](int a, int b) { return at(channel, a).sink_port < at(channel, b).sink_port; };
    auto by_source = [this](int a, int b) { return at(channel, a).source_port < at(channel, b).source_port; };
    std::stable_sort(spec.inputs.begin(), spec.inputs.end(), by_sink);
    std::stable_sort(spec.outputs.begin(), spec.outputs.end(), by_source);
    for (int c : spec.inputs) spec.input_ports = std::max(spec.input_ports, at(channel, c).sink_port + 1);
    for (int c : spec.outputs) spec.output_ports = std::max(spec.output_ports, at(channel, c).source_port + 1);
    first_output_.push_back(count_of(outputs_));
    outputs_.insert(outputs_.end(), spec.outputs.begin(), spec.outputs.end());
  }
}

// Virtual channels are numbered by the unit at their end and its inputs, so that those of a router are adjacent.
void Shape::make_links() {
  link.resize(channel.size());
  for (int c = 0; c < channels(); ++c) {
    const ChannelSpec& spec = at(channel, c);
    Link& result = at(link, c);
    result.source = spec.source;
    result.sink = spec.sink;
    result.vcs = spec.vnets * rules.vcs;
    const bool wide = spec.flit_time.cycles <= 1 && spec.flit_time.ps == 0;
    result.delay = wide ? narrow<std::int32_t>(spec.latency.cycles + (spec.latency.ps > 0)) : -1;
    result.dimension = narrow<std::int16_t>(spec.dimension);
    result.source_port = narrow<std::uint16_t>(spec.source_port);
    result.sink_port = narrow<std::uint16_t>(spec.sink_port);
    result.first_vnet = narrow<std::uint16_t>(spec.first_vnet);
    if (spec.dimension >= 0 && rules.vc_classes() != VcClasses::none)
      result.classes = narrow<std::uint8_t>(at(vc_classes(), spec.dimension));
    result.ring = spec.ring;
    result.offset_map = spec.offset_map;
    result.source_port_varies = spec.source_port_varies;
    result.sink_port_varies = spec.sink_port_varies;
  }
  auto number_vcs = [this](int c) {
    at(link, c).vc_base = all_vcs;
    all_vcs += vc_count(c);
  };
  for (const RouterSpec& spec : router) {
    vc_base.push_back(all_vcs);
    for (std::size_t place = 0; place < spec.inputs.size(); ++place) {
      at(link, spec.inputs[place]).sink_place = narrow<std::uint16_t>(place);
      number_vcs(spec.inputs[place]);
    }
  }
  vc_base.push_back(all_vcs);
  for (const InjectionPortSpec& spec : injection_port) number_vcs(spec.in);
}

int Shape::injection_port_towards(int source, int destination, int vnet) const {
  const InjectionPorts& injection_ports = injection_ports_of(source, vnet);
  const std::uint16_t place = routes.hop(at(node_router, source), destination) & TableEntry::kPlace;
  return place == TableEntry::kHere || place == TableEntry::kUnreachable ? injection_ports.first
                                                                         : injection_ports.first + place % injection_ports.count;
}

int Shape::next_of_classes(int in, int out, int node, int before) const {
  const Link& way = at(link, out);
  const bool enters = at(link, in).dimension != way.dimension;
  const bool at_entry = way.ring && rules.vc_classes() == VcClasses::at_entry;
  if (!at_entry) return enters ? 0 : before + (at(channel, out).order <= at(channel, in).order);
  if (!enters) return before;
  return routes.addresses().position(node, way.dimension) < at(at(router, way.source).coordinates, way.dimension);
}

int hops_between(const Shape& shape, int source, int destination, int vnet) {
  if (shape.injection_ports_of(source, vnet).count == 0 || shape.injection_ports_of(destination, vnet).count == 0) return -1;
  int r = at(shape.node_router, source);
  for (int count = 0; count <= shape.routers(); ++count) {
    if (shape.routes.differing_dimension(r, destination) < 0) return count;
    const int c = !at(shape.router, r).spray.empty() ? at(shape.router, r).spray.front() : shape.first_hop(r, -1, destination, vnet);
    if (c < 0) return -1;
    r = at(shape.channel, c).sink;
  }
  return -1;
}

}  // namespace astra::packet
