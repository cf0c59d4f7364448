// The Python module astra_sim_serving._core: the loop of a fleet, compiled.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "figures.hpp"
#include "fleet.hpp"
#include "lengths.hpp"
#include "policies.hpp"
#include "price.hpp"
#include "python_policy.hpp"
#include "sums.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra::serving;

namespace {

template <typename T>
std::vector<T> column(const nb::bytes& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), bytes.c_str(), result.size() * sizeof(T));
  return result;
}

template <typename T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

// Whether Python's `sum` keeps what is lost by rounding.
bool sum_compensates() {
  nb::list values;
  for (const double each : {1e100, 1.0, -1e100}) values.append(each);
  return nb::cast<double>(nb::module_::import_("builtins").attr("sum")(values)) == 1.0;
}

nb::bytes draw_lengths(const LengthSampler& sampler, std::uint64_t seed, const std::string& name, std::int64_t count) {
  const RandomStream stream(seed, name);
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (std::size_t number = 0; number < result.size(); ++number) result[number] = sampler.draw(stream, number, kMostTokens);
  return bytes_of(result);
}

nb::bytes draw_poisson(std::uint64_t seed, const std::string& name, double rate, std::int64_t count) {
  const RandomStream stream(seed, name);
  std::vector<double> result(static_cast<std::size_t>(count));
  double now = 0.0;
  for (std::size_t number = 0; number < result.size(); ++number) result[number] = now += stream.exponential(number) / rate;
  return bytes_of(result);
}

// Transfers that Python times, by an object with the methods of `Transfers`: routes are given as request, sender and receiver, chunks as
// begin, end and tokens.
class PythonTransfers final : public Transfers {
 public:
  PythonTransfers(nb::object times, bool by_layer) : times_(std::move(times)), by_layer_(by_layer) {}

  bool by_layer() const override { return by_layer_; }
  void stream(double now, const RoutedChunks& parts) override {
    if (parts.empty()) return;
    nb::list result;
    for (const auto& [route, chunk] : parts) {
      result.append(nb::make_tuple(route.request, route.sender, route.receiver, chunk.begin, chunk.end, chunk.tokens));
    }
    times_.attr("stream")(now, result);
  }
  std::optional<double> close(double now, const TransferPath& route, Tokens tokens) override {
    return nb::cast<std::optional<double>>(times_.attr("close")(now, route.request, route.sender, route.receiver, tokens));
  }
  void forget(Number request) override { times_.attr("forget")(request); }
  bool is_under_way() const override { return nb::cast<bool>(times_.attr("is_under_way")()); }
  Ended advance(std::optional<double> until) override { return nb::cast<Ended>(times_.attr("advance")(until)); }

 private:
  nb::object times_;
  bool by_layer_;
};

// Columns of requests: arrivals, prompts, answers, priorities, numbers of models, and how many of `contents` each has and the tokens of
// each of these. The last four are empty if all are 0. `limit`: the longest answer that the server assumes; 0: each one's own length.
void add_requests(Fleet& fleet, const nb::bytes& arrivals, const nb::bytes& inputs, const nb::bytes& outputs, const nb::bytes& priorities,
                  const nb::bytes& models, const nb::bytes& counts, const nb::bytes& content_tokens, const nb::bytes& contents,
                  Tokens limit) {
  const auto arrival = column<double>(arrivals);
  const auto input = column<std::int64_t>(inputs), output = column<std::int64_t>(outputs), priority = column<std::int64_t>(priorities);
  const auto model = column<std::int64_t>(models), shared = column<std::int64_t>(counts), tokens = column<std::int64_t>(content_tokens);
  if (input.size() != arrival.size() || output.size() != arrival.size() || shared.size() != tokens.size()) {
    throw std::invalid_argument("columns of requests differ in length");
  }
  std::vector<Sequence> result(arrival.size());
  std::int64_t begin = 0;
  for (std::size_t number = 0; number < result.size(); ++number) {
    Sequence& each = result[number];
    if (input[number] >= kMostTokens || output[number] >= kMostTokens) throw std::overflow_error("a request is too long");
    each.number = static_cast<Number>(number);
    each.arrival = arrival[number];
    each.total = each.input = static_cast<Tokens>(input[number]);
    each.output = static_cast<Tokens>(output[number]);
    each.max_new_tokens = limit ? limit : each.output;
    if (!priority.empty()) each.priority = priority[number];
    if (!model.empty()) each.model = static_cast<Number>(model[number]);
    if (!shared.empty() && shared[number]) {
      each.content = begin;
      each.content_tokens = static_cast<Tokens>(std::min<std::int64_t>(tokens[number], kMostTokens));
      each.shared = static_cast<Tokens>(std::min<std::int64_t>(input[number], shared[number] * each.content_tokens));
      begin += shared[number];
    }
  }
  fleet.add_requests(std::move(result), column<std::int64_t>(contents));
}

// The state of a request, as compiled.py takes it apart.
nb::tuple sequence(const Fleet& fleet, std::int64_t number) {
  const Sequence& each = fleet.sequences()[static_cast<std::size_t>(number)];
  const auto tuple_of = [](const Parts& parts) { return std::tuple_cat(parts); };
  return nb::make_tuple(each.arrival, each.total, each.computed, each.generated, each.capacity, each.cached, each.drafts, each.preemptions,
                        each.instance, each.handed.sender, each.scheduled, each.first_token, each.last_token, static_cast<int>(each.shed),
                        each.preempted_at, each.preempted_s, each.preempted_before_first_s, tuple_of(each.mark), tuple_of(each.prefill),
                        tuple_of(each.decode), each.handed.end, each.handed.resumed);
}

nb::tuple totals(const Fleet& fleet, std::size_t number) {
  const Instance& instance = *fleet.instances().at(number);
  const Totals& each = instance.totals;
  return nb::make_tuple(each.iterations, each.busy_s, each.sequences, each.tokens, each.kv_block_s, each.peak_blocks,
                        std::tuple_cat(each.parts), each.preemptions);
}

std::vector<std::int64_t> scheduler_totals(const Fleet& fleet, std::size_t number) {
  const Scheduler& each = fleet.instances().at(number)->scheduler;
  return {each.cache.free_blocks(), each.hit_tokens, each.looked_up_tokens};
}

// Requests that are in an instance, running ones first.
std::vector<std::int64_t> requests_in(const Fleet& fleet, std::size_t number) {
  const Scheduler& each = fleet.instances().at(number)->scheduler;
  std::vector<std::int64_t> result;
  for (const Sequence* one : each.running) result.push_back(one->number);
  for (const Sequence* one : each.waiting) result.push_back(one->number);
  return result;
}

std::vector<std::pair<std::int64_t, std::vector<double>>> plain(const std::vector<Band>& bands) {
  std::vector<std::pair<std::int64_t, std::vector<double>>> result;
  for (const Band& each : bands) result.emplace_back(each.count, each.means);
  return result;
}

// The figures of the requests of a model; of all for -1.
Figures figures(const Fleet& fleet, Number model) { return {fleet.sequences(), fleet.arrived(), model}; }

// The numbers of the requests of a model that have arrived.
std::vector<std::int64_t> requests_of(const Fleet& fleet, Number model) {
  std::vector<std::int64_t> result;
  for (std::int64_t number = 0; number < fleet.arrived(); ++number) {
    if (fleet.sequences()[static_cast<std::size_t>(number)].model == model) result.push_back(number);
  }
  return result;
}

// Let a policy in Python start and stop instances: `decide` takes what `Scaling::decide` does, in tuples.
void scale(Fleet& fleet, std::size_t pools, double period_s, double cold_start_s, const nb::callable& decide) {
  Scaling scaling;
  scaling.period_s = period_s;
  scaling.cold_start_s = cold_start_s;
  scaling.pools.resize(pools);
  scaling.decide = [decide](Number started, double now, const std::vector<InstanceLoad>& loads, const std::vector<PoolPeriod>& periods) {
    nb::list instances, period;
    for (const InstanceLoad& each : loads) instances.append(nb::make_tuple(each.waiting, each.used_blocks, each.held));
    for (const PoolPeriod& each : periods) period.append(nb::make_tuple(each.arrived, each.ttfts));
    return nb::cast<Scaling::Decision>(decide(started, now, instances, period));
  };
  fleet.scale(std::move(scaling));
}

}  // namespace

NB_MODULE(_core, module) {
  compensates = sum_compensates();
  module.attr("MOST_TOKENS") = kMostTokens;
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const StuckPolicy& error) {
      PyErr_SetString(nb::module_::import_("astra_sim").attr("PluginError").ptr(), error.what());
    }
  });

  nb::class_<LengthSampler>(module, "LengthSampler")
      .def(nb::new_([](std::string distribution, std::vector<double> numbers, std::vector<std::int64_t> values, std::int64_t maximum,
                       std::vector<LengthSampler> parts) {
             return LengthSampler{std::move(distribution), std::move(numbers), std::move(values), maximum, std::move(parts)};
           }),
           "distribution"_a, "numbers"_a, "values"_a, "maximum"_a, "parts"_a);
  module.def("draw_lengths", &draw_lengths, "sampler"_a, "seed"_a, "name"_a, "count"_a);
  module.def("draw_poisson", &draw_poisson, "seed"_a, "name"_a, "rate"_a, "count"_a);

  nb::class_<AttentionTime>(module, "AttentionTime");
  nb::class_<FormulaAttention, AttentionTime>(module, "FormulaAttention")
      .def(nb::init<FormulaAttention::Prompt, FormulaAttention::Decodes, std::int64_t>(), "prompt"_a, "decodes"_a, "layers"_a);
  nb::class_<TableAttention, AttentionTime>(module, "TableAttention")
      .def(
          "__init__",
          [](TableAttention* self,
             std::function<double(std::int64_t, double, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double)> ask,
             double skew, std::int64_t least_chunk) {
            new (self) TableAttention(
                [ask = std::move(ask)](const BatchShape& shape, double kv) {
                  return ask(shape.chunk, shape.pairs, shape.decodes, shape.kv_tokens, shape.kv_longest, shape.sampled, shape.drafts, kv);
                },
                skew, least_chunk);
          },
          "ask"_a, "skew"_a, "least_chunk"_a);
  nb::class_<DraftTime>(module, "DraftTime");
  nb::class_<LayerDraft, DraftTime>(module, "LayerDraft")
      .def(nb::init<std::shared_ptr<AttentionTime>, std::function<LayerDraft::Rest(std::int64_t)>, std::int64_t>(), "attention"_a, "rest"_a,
           "layers"_a);
  nb::class_<ExpertTimes>(module, "ExpertTimes")
      .def(
          "__init__",
          [](ExpertTimes* self, std::function<ExpertTimes::Layers(std::int64_t)> layers, std::function<double(std::int64_t)> experts,
             std::function<double(std::int64_t)> exchange, std::int64_t graph_tokens) {
            new (self)
                ExpertTimes{Remembered(std::move(layers)), Remembered(std::move(experts)), Remembered(std::move(exchange)), graph_tokens};
          },
          "layers"_a, "experts"_a, "exchange"_a, "graph_tokens"_a);
  nb::class_<IterationTime>(module, "IterationTime")
      .def(
          "__init__",
          [](IterationTime* self, std::shared_ptr<AttentionTime> attention, std::function<IterationTime::Body(std::int64_t)> body,
             std::function<IterationTime::Ends(std::int64_t)> ends, double host_us, double host_us_per_sequence, bool asynchronous,
             std::shared_ptr<DraftTime> draft, std::optional<ExpertTimes> experts) {
            new (self) IterationTime(std::move(attention), std::move(body), std::move(ends), {host_us, host_us_per_sequence, asynchronous},
                                     std::move(draft), std::move(experts));
          },
          "attention"_a, "body"_a, "ends"_a, "host_us"_a, "host_us_per_sequence"_a, "asynchronous"_a, "draft"_a.none(), "experts"_a.none());
  nb::class_<ModelDraft, DraftTime>(module, "ModelDraft").def(nb::init<std::shared_ptr<IterationTime>>(), "model"_a);
  nb::class_<Speculation>(module, "Speculation")
      .def(
          "__init__",
          [](Speculation* self, double acceptance, std::uint64_t seed) {
            new (self) Speculation(acceptance, RandomStream(seed, "speculation"));
          },
          "acceptance"_a, "seed"_a)
      .def_ro("drafted", &Speculation::drafted)
      .def_ro("accepted", &Speculation::accepted_tokens);

  nb::class_<Policy>(module, "Policy");
  nb::class_<PrefillFirst, Policy>(module, "PrefillFirst").def(nb::init<>());
  nb::enum_<OneChunk::Order>(module, "Order")
      .value("ARRIVAL", OneChunk::Order::kArrival)
      .value("PROMPT", OneChunk::Order::kPrompt)
      .value("OUTPUT", OneChunk::Order::kOutput)
      .value("DEADLINE", OneChunk::Order::kDeadline);
  nb::class_<OneChunk, Policy>(module, "OneChunk")
      .def(nb::init<OneChunk::Order, double, double>(), "order"_a, "first"_a = 0.0, "second"_a = 0.0);
  nb::class_<WholePrompts, Policy>(module, "WholePrompts").def(nb::init<bool, bool>(), "reserves"_a, "chunked"_a);
  nb::class_<PythonPolicy, Policy>(module, "PythonPolicy")
      .def(nb::init<nb::callable, nb::callable, nb::callable, nb::type_object, nb::tuple>(), "plan"_a, "checked"_a, "keeps"_a, "state"_a,
           "fields"_a);
  nb::class_<Sglang, Policy>(module, "Sglang").def(nb::init<bool, double>(), "longest_match"_a, "conservativeness"_a);

  nb::class_<Transfers>(module, "Transfers");
  nb::class_<TransfersInTurn, Transfers>(module, "TransfersInTurn")
      .def(
          "__init__",
          [](TransfersInTurn* self, double latency_s, const std::vector<std::pair<double, std::int64_t>>& senders, double bytes_per_s,
             TransfersInTurn::Seconds seconds) {
            std::vector<TransfersInTurn::Sender> result;
            for (const auto& [bytes_per_token, layers] : senders) result.push_back({bytes_per_token, layers});
            new (self) TransfersInTurn(latency_s, std::move(result), bytes_per_s, std::move(seconds));
          },
          "latency_s"_a, "senders"_a, "bytes_per_s"_a, "seconds"_a)
      .def_ro("total_s", &TransfersInTurn::total_s)
      .def_ro("count", &TransfersInTurn::count);
  nb::class_<PythonTransfers, Transfers>(module, "PythonTransfers").def(nb::init<nb::object, bool>(), "times"_a, "by_layer"_a);

  nb::enum_<Role>(module, "Role").value("BOTH", Role::kBoth).value("PREFILL", Role::kPrefill).value("DECODE", Role::kDecode);
  nb::class_<Fleet>(module, "Fleet")
      .def(
          "__init__",
          [](Fleet* self, std::int64_t concurrency, double front_end_s, std::int64_t queue_limit,
             std::optional<std::int64_t> max_model_tokens, std::uint64_t seed) {
            FleetOptions options{concurrency, front_end_s, queue_limit, {}};
            options.max_model_tokens = max_model_tokens.value_or(std::numeric_limits<std::int64_t>::max());
            new (self) Fleet(options, RandomStream(seed, "router"));
          },
          "concurrency"_a, "front_end_s"_a, "queue_limit"_a, "max_model_tokens"_a.none(), "seed"_a)
      .def(
          "add_model",
          [](Fleet& self, const std::string& router, double prefix_beta, std::uint64_t seed, std::optional<Chooser> chooser) {
            self.add_model(Router(router, prefix_beta, RandomStream(seed, "router"), chooser.value_or(nullptr)));
          },
          "router"_a, "prefix_beta"_a, "seed"_a, "chooser"_a.none())
      .def(
          "add_instance",
          [](Fleet& self, Number pool, Number model, Role role, std::int64_t blocks, Tokens block_tokens, bool prefix_caching,
             std::int64_t sequences, std::int64_t tokens, std::int64_t prefill_tokens, bool by_priority, Tokens drafts,
             std::shared_ptr<Policy> policy, std::string policy_name, std::shared_ptr<Speculation> speculation) {
            self.add_instance(
                {0, pool, model, role},
                {blocks, block_tokens, prefix_caching, {sequences, tokens, prefill_tokens}, by_priority, drafts, std::move(policy_name)},
                std::move(policy), std::move(speculation));
          },
          "pool"_a, "model"_a, "role"_a, "blocks"_a, "block_tokens"_a, "prefix_caching"_a, "sequences"_a, "tokens"_a, "prefill_tokens"_a,
          "by_priority"_a, "drafts"_a, "policy"_a.none(), "policy_name"_a, "speculation"_a.none())
      .def("add_replica", &Fleet::add_replica, "instances"_a, "time"_a, "jumps"_a)
      .def("add_requests", &add_requests, "arrivals"_a, "inputs"_a, "outputs"_a, "priorities"_a, "models"_a, "counts"_a, "content_tokens"_a,
           "contents"_a, "limit"_a)
      .def("hand_over", nb::overload_cast<std::shared_ptr<Transfers>>(&Fleet::hand_over), "transfers"_a)
      .def("scale", &scale, "pools"_a, "period_s"_a, "cold_start_s"_a, "decide"_a)
      .def("open", &Fleet::open, "instances"_a)
      .def("advance", &Fleet::advance, "most"_a)
      .def_prop_ro("now", &Fleet::now)
      .def_prop_ro("events", &Fleet::events)
      .def_prop_ro("arrived", &Fleet::arrived)
      .def("sequence", &sequence, "number"_a)
      .def("totals", &totals, "instance"_a)
      .def("scheduler_totals", &scheduler_totals, "instance"_a)
      .def("requests_in", &requests_in, "instance"_a)
      .def("requests_of", &requests_of, "model"_a)
      .def("gaps", &Fleet::gaps, "model"_a)
      .def(
          "gap_summary", [](Fleet& self, Number model) { return summary_of(self.gaps(model)); }, "model"_a)
      .def("figures", &figures, "model"_a, nb::keep_alive<0, 1>());
  nb::class_<Figures>(module, "Figures")
      .def("finished", &Figures::finished)
      .def("tokens", &Figures::tokens)
      .def("preempted", &Figures::preempted)
      .def("shed", &Figures::shed)
      .def("last_token", &Figures::last_token)
      .def("finished_between", &Figures::finished_between, "begin"_a, "end"_a)
      .def(
          "within",
          [](const Figures& self, std::optional<double> ttft_ms, std::optional<double> tpot_ms, std::optional<double> e2e_ms) {
            return self.within({ttft_ms, tpot_ms, e2e_ms});
          },
          "ttft_ms"_a.none(), "tpot_ms"_a.none(), "e2e_ms"_a.none())
      .def("summary", &Figures::summary, "latency"_a)
      .def(
          "ttft_bands",
          [](const Figures& self, double front_end_s, const std::vector<std::pair<double, double>>& bands) {
            return plain(self.ttft_bands(front_end_s, bands));
          },
          "front_end_s"_a, "bands"_a)
      .def(
          "tpot_bands",
          [](const Figures& self, const std::vector<std::pair<double, double>>& bands) { return plain(self.tpot_bands(bands)); },
          "bands"_a);
}
