// The time of an iteration of one rank: IterationTime.step of Python, of parts that Python calculates once for each of their arguments.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
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

// FormulaTimes.attention_us: a prompt by its queries and context, and decoding sequences by their number and keys.
class FormulaAttention final : public AttentionTime {
 public:
  using Ask = std::function<double(std::int64_t, std::int64_t)>;

  FormulaAttention(Ask prompt, Ask decodes, std::int64_t layers)
      : prompt_(std::move(prompt)), decodes_(std::move(decodes)), layers_(static_cast<double>(layers)) {}

  double microseconds(const BatchShape& shape) override {
    double time = 0.0;
    if (shape.chunk) time += value(prompts_, prompt_, shape.attention_chunk(), kKvQuantum * kv_quanta(shape.chunk_context()));
    if (shape.decodes)
      time += value(decoding_, decodes_, shape.decodes, kKvQuantum * std::max<std::int64_t>(1, kv_quanta(shape.kv_mean())));
    return time * layers_;
  }

 private:
  static double value(RememberedPairs& known, const Ask& ask, std::int64_t first, std::int64_t second) {
    const double* entry = known.find(first, second);
    return entry ? *entry : known.keep(first, second, ask(first, second));
  }

  Ask prompt_;
  Ask decodes_;
  double layers_;
  RememberedPairs prompts_;
  RememberedPairs decoding_;
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

class IterationTime {
 public:
  using Body = std::array<double, 3>;  // products, other kernels and collectives of all layers
  using Ends = std::array<double, 2>;  // head and sampler

  IterationTime(std::shared_ptr<AttentionTime> attention, std::function<Body(std::int64_t)> body, std::function<Ends(std::int64_t)> ends,
                HostTime host)
      : attention_(std::move(attention)), body_(std::move(body)), ends_(std::move(ends)), host_(host) {}

  // Seconds of the parts.
  Parts step(const BatchShape& shape) {
    const Body& layers = body_(shape.tokens());
    const Ends& ends = ends_(shape.sampled);
    const double attention = attention_->microseconds(shape);
    const double last = ends[0] + ends[1];
    const double body = layers[0] + layers[1] + attention + layers[2];
    double host = host_.microseconds + host_.per_sequence * static_cast<double>(shape.sampled);
    if (host_.asynchronous) host = std::max(0.0, host - (body + last));
    const Parts parts{layers[0] + ends[0], attention, layers[1] + ends[1], layers[2], host};
    Parts result;
    std::transform(parts.begin(), parts.end(), result.begin(), [](double each) { return each * 1e-6; });
    return result;
  }

 private:
  std::shared_ptr<AttentionTime> attention_;
  Remembered<Body> body_;
  Remembered<Ends> ends_;
  HostTime host_;
};

}  // namespace astra::serving
