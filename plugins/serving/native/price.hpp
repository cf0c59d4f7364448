// The time of an iteration of one rank: IterationTime.step of Python, of parts that Python calculates once for each of their arguments.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "batch.hpp"
#include "sums.hpp"

namespace astra::serving {

// Values that are asked for once, by small numbers.
template <typename T>
class Remembered {
 public:
  explicit Remembered(std::function<T(std::int64_t)> ask) : ask_(std::move(ask)) {}

  const T& operator()(std::int64_t number) {
    if (number < kDense) {
      const auto place = static_cast<std::size_t>(number);
      if (place >= known_.size()) {
        known_.resize(place + 1, 0);
        values_.resize(place + 1);
      }
      if (!known_[place]) {
        values_[place] = ask_(number);
        known_[place] = 1;
      }
      return values_[place];
    }
    const auto entry = others_.find(number);
    return entry != others_.end() ? entry->second : others_.emplace(number, ask_(number)).first->second;
  }

 private:
  static constexpr std::int64_t kDense = 1 << 16;

  std::function<T(std::int64_t)> ask_;
  std::vector<char> known_;
  std::vector<T> values_;
  std::unordered_map<std::int64_t, T> others_;
};

// Values by two numbers, of which both are below 2^31.
class RememberedPairs {
 public:
  double* find(std::int64_t first, std::int64_t second) {
    const auto entry = values_.find(key(first, second));
    return entry == values_.end() ? nullptr : &entry->second;
  }

  double keep(std::int64_t first, std::int64_t second, double value) { return values_[key(first, second)] = value; }

 private:
  struct Mixed {
    std::size_t operator()(std::uint64_t key) const {
      key *= 0x9e3779b97f4a7c15u;
      return static_cast<std::size_t>(key ^ key >> 32);
    }
  };

  static std::uint64_t key(std::int64_t first, std::int64_t second) {
    return static_cast<std::uint64_t>(first) << 32 ^ static_cast<std::uint64_t>(second);
  }

  std::unordered_map<std::uint64_t, double, Mixed> values_;
};

// Attention of all layers, in microseconds.
class AttentionTime {
 public:
  virtual ~AttentionTime() = default;
  virtual double microseconds(const BatchShape& shape) = 0;
};

// FormulaTimes.attention_us: a prompt by its queries and context, and decoding sequences by their number, queries and keys.
class FormulaAttention final : public AttentionTime {
 public:
  using Prompt = std::function<double(std::int64_t, std::int64_t)>;
  using Decodes = std::function<double(std::int64_t, std::int64_t, std::int64_t)>;

  FormulaAttention(Prompt prompt, Decodes decodes, std::int64_t layers)
      : prompt_(std::move(prompt)), decodes_(std::move(decodes)), layers_(static_cast<double>(layers)) {}

  double microseconds(const BatchShape& shape) override {
    double time = 0.0;
    if (shape.chunk) time += prompt_us(shape.attention_chunk(), kKvQuantum * kv_quanta(shape.chunk_context()));
    if (shape.decodes) {
      const auto queries = 1 + static_cast<std::int64_t>(std::nearbyint(shape.draft_rounds()));
      time += decodes_us(shape.decodes, queries, kKvQuantum * std::max<std::int64_t>(1, kv_quanta(shape.kv_mean())));
    }
    return time * layers_;
  }

 private:
  double prompt_us(std::int64_t queries, std::int64_t context) {
    const double* known = prompts_.find(queries, context);
    return known ? *known : prompts_.keep(queries, context, prompt_(queries, context));
  }

  double decodes_us(std::int64_t sequences, std::int64_t queries, std::int64_t keys) {
    if (queries >= static_cast<std::int64_t>(decoding_.size())) decoding_.resize(static_cast<std::size_t>(queries) + 1);
    RememberedPairs& values = decoding_[static_cast<std::size_t>(queries)];
    const double* known = values.find(sequences, keys);
    return known ? *known : values.keep(sequences, keys, decodes_(sequences, queries, keys));
  }

  Prompt prompt_;
  Decodes decodes_;
  double layers_;
  RememberedPairs prompts_;
  std::vector<RememberedPairs> decoding_;  // by queries of a sequence
};

// TableTimes.attention_us: the mean context, and a share of the additional time of the longest.
class TableAttention final : public AttentionTime {
 public:
  using Ask = std::function<double(const BatchShape&, double)>;

  TableAttention(Ask ask, double skew, std::int64_t least_chunk) : ask_(std::move(ask)), skew_(skew), least_chunk_(least_chunk) {}

  double microseconds(const BatchShape& shape) override {
    if (!shape.tokens()) return 0.0;
    const double mean = at(shape, shape.kv_mean());
    if (skew_ == 0.0 || !shape.decodes || shape.chunk) return mean;
    return mean + skew_ * (at(shape, static_cast<double>(shape.kv_longest)) - mean);
  }

 private:
  using Key = std::array<std::int64_t, 4>;
  struct Mixed {
    std::size_t operator()(const Key& key) const {
      std::uint64_t mixed = 0;
      for (const std::int64_t each : key) mixed = (mixed ^ mixed >> 32 ^ static_cast<std::uint64_t>(each)) * 0x9e3779b97f4a7c15u;
      return static_cast<std::size_t>(mixed ^ mixed >> 32);
    }
  };

  double at(const BatchShape& shape, double kv) {
    const std::int64_t chunk = shape.chunk ? std::max(shape.attention_chunk(), least_chunk_) : 0;
    const Key key{chunk, kv_quanta(shape.chunk_context()), shape.decodes, kv_quanta(kv)};
    const auto entry = known_.find(key);
    return entry != known_.end() ? entry->second : known_.emplace(key, ask_(shape, kv)).first->second;
  }

  Ask ask_;
  double skew_;
  std::int64_t least_chunk_;
  std::unordered_map<Key, double, Mixed> known_;
};

struct HostTime {
  double microseconds = 0.0;
  double per_sequence = 0.0;
  bool asynchronous = true;
};

// Products, attention, other kernels and collectives, in microseconds.
using DeviceParts = std::array<double, 4>;

// The time in which each decoding sequence gets a token of its draft.
class DraftTime {
 public:
  virtual ~DraftTime() = default;
  virtual DeviceParts microseconds(const BatchShape& shape) = 0;
};

// What ranks that meet in each layer need beside `IterationTime`.
struct ExpertTimes {
  using Layers = std::array<double, 3>;  // products without experts, other kernels and all-reduces of all layers

  Remembered<Layers> layers;
  Remembered<double> experts;   // by the tokens of all ranks
  Remembered<double> exchange;  // of all layers, by the tokens of all ranks
  std::int64_t graph_tokens;
};

class IterationTime {
 public:
  using Body = std::array<double, 3>;  // products, other kernels and collectives of all layers
  using Ends = std::array<double, 2>;  // head and sampler

  IterationTime(std::shared_ptr<AttentionTime> attention, std::function<Body(std::int64_t)> body, std::function<Ends(std::int64_t)> ends,
                HostTime host, std::shared_ptr<DraftTime> draft = nullptr, std::optional<ExpertTimes> experts = std::nullopt)
      : attention_(std::move(attention)),
        body_(std::move(body)),
        ends_(std::move(ends)),
        host_(host),
        draft_(std::move(draft)),
        experts_(std::move(experts)) {}

  // Seconds of the parts of one rank.
  Parts step(const BatchShape& shape) {
    const Body& layers = body_(shape.tokens());
    const Ends& ends = ends_(shape.sampled + shape.drafts);
    const double attention = attention_->microseconds(shape);
    const DeviceParts draft = draft_us(shape);
    const double last = ends[0] + ends[1] + sum_of(draft);
    const double body = layers[0] + layers[1] + attention + layers[2];
    return seconds({layers[0] + ends[0] + draft[0], attention + draft[1], layers[1] + ends[1] + draft[2], layers[2] + draft[3],
                    host_us(shape.sampled, body + last)});
  }

  // The same of ranks that wait for each other in each layer with experts, and at the end.
  void step_together(const std::vector<BatchShape>& shapes, std::vector<Parts>& parts);

 private:
  static Parts seconds(const Parts& microseconds) {
    Parts result;
    std::transform(microseconds.begin(), microseconds.end(), result.begin(), [](double each) { return each * 1e-6; });
    return result;
  }

  DeviceParts draft_us(const BatchShape& shape) {
    if (!shape.drafts || !draft_) return {};
    DeviceParts result = draft_->microseconds(shape.drafting());
    for (double& each : result) each *= shape.draft_rounds();
    return result;
  }

  double host_us(std::int64_t sampled, double device) const {
    const double host = host_.microseconds + host_.per_sequence * static_cast<double>(sampled);
    return host_.asynchronous ? std::max(0.0, host - device) : host;
  }

  std::shared_ptr<AttentionTime> attention_;
  Remembered<Body> body_;
  Remembered<Ends> ends_;
  HostTime host_;
  std::shared_ptr<DraftTime> draft_;
  std::optional<ExpertTimes> experts_;
};

// Another layer of the model with the head: all but attention by the sequences.
class LayerDraft final : public DraftTime {
 public:
  using Rest = std::array<double, 3>;  // products, other kernels and collectives

  LayerDraft(std::shared_ptr<AttentionTime> attention, std::function<Rest(std::int64_t)> rest, std::int64_t layers)
      : attention_(std::move(attention)), rest_(std::move(rest)), layers_(static_cast<double>(layers)) {}

  DeviceParts microseconds(const BatchShape& shape) override {
    const Rest& rest = rest_(shape.decodes);
    return {rest[0], attention_->microseconds(shape) / layers_, rest[1], rest[2]};
  }

 private:
  std::shared_ptr<AttentionTime> attention_;
  Remembered<Rest> rest_;
  double layers_;
};

// An iteration of a smaller model.
class ModelDraft final : public DraftTime {
 public:
  explicit ModelDraft(std::shared_ptr<IterationTime> model) : model_(std::move(model)) {}

  DeviceParts microseconds(const BatchShape& shape) override {
    const Parts parts = model_->step(shape);
    return {parts[0] * 1e6, parts[1] * 1e6, parts[2] * 1e6, parts[3] * 1e6};
  }

 private:
  std::shared_ptr<IterationTime> model_;
};

}  // namespace astra::serving
