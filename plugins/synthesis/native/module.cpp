// The Python module astra_sim_synthesis._core: matchings of edges and pieces in time. Columns are bytes: of int32 if they are numbers of
// edges, links, pieces or ranks, of double if they are times in nanoseconds.
#include <nanobind/nanobind.h>

#include <cstring>
#include <stdexcept>

#include "matching.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra::synthesis;

namespace {

template <class T>
std::vector<T> column(const nb::bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.c_str(), values.size() * sizeof(T));
  return values;
}

template <class T, class Field>
nb::bytes bytes_of(const std::vector<Sent>& sent, Field field) {
  std::vector<T> values;
  values.reserve(sent.size());
  for (const Sent& each : sent) values.push_back(each.*field);
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

void check(const MatchingGraph& graph, std::int32_t pieces) {
  const std::size_t edges = graph.source.size();
  require(graph.ranks > 1 && pieces > 0 && static_cast<std::int64_t>(graph.ranks) * graph.ranks * pieces < (std::int64_t{1} << 31),
          "there are fewer than two ranks, no pieces, or 2^31 messages");
  require(graph.target.size() == edges && graph.latency.size() == edges && graph.first_link.size() == edges + 1,
          "columns of edges differ in length");
  require(graph.first_link.front() == 0 && graph.first_link.back() == static_cast<std::int32_t>(graph.links.size()),
          "the links of edges are not all links");
  for (std::size_t edge = 0; edge < edges; ++edge) {
    require(graph.first_link[edge] < graph.first_link[edge + 1], "an edge has no link");
    for (const std::int32_t rank : {graph.source[edge], graph.target[edge]})
      require(rank >= 0 && rank < graph.ranks, "an edge has a rank that is not there");
  }
  for (const std::int32_t link : graph.links)
    require(link >= 0 && link < static_cast<std::int32_t>(graph.busy.size()), "an edge has a link that is not there");
}

nb::tuple match(std::int32_t ranks, const nb::bytes& source, const nb::bytes& target, const nb::bytes& first_link, const nb::bytes& links,
                const nb::bytes& latency, const nb::bytes& busy, std::int32_t pieces, std::int32_t attempts) {
  const MatchingGraph graph{ranks,
                            column<std::int32_t>(source),
                            column<std::int32_t>(target),
                            column<std::int32_t>(first_link),
                            column<std::int32_t>(links),
                            column<double>(latency),
                            column<double>(busy)};
  check(graph, pieces);
  const Matching best = [&] {
    nb::gil_scoped_release released;
    return best_matching(graph, pieces, attempts);
  }();
  return nb::make_tuple(bytes_of<std::int32_t>(best.sent, &Sent::edge), bytes_of<std::int32_t>(best.sent, &Sent::piece),
                        bytes_of<double>(best.sent, &Sent::start), bytes_of<double>(best.sent, &Sent::arrival), best.time, best.least);
}

}  // namespace

NB_MODULE(_core, module) {
  module.def("match", &match, "ranks"_a, "source"_a, "target"_a, "first_link"_a, "links"_a, "latency"_a, "busy"_a, "pieces"_a,
             "attempts"_a);
}
