// Transfers of keys and values from instances for prompts to those for answers: transfers.py of Python.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "request.hpp"

namespace astra::serving {

// The instances between which keys and values of a request go.
struct TransferPath {
  Number request = 0;
  Number sender = 0;
  Number receiver = 0;
};

// Tokens of a prompt that an iteration computes between two moments, and with them keys and values that have not been sent.
struct PromptChunk {
  double begin = 0.0;
  double end = 0.0;
  Tokens tokens = 0;
};

using RoutedChunks = std::vector<std::pair<TransferPath, PromptChunk>>;

class Transfers {
 public:
  using Ended = std::pair<double, std::vector<Number>>;

  virtual ~Transfers() = default;
  // Whether the layers of a prompt are sent one by one.
  virtual bool by_layer() const = 0;
  // Send the layers of chunks of a sender, each as it is ready; in a layer in the order of the chunks.
  virtual void stream(double now, const RoutedChunks& parts) = 0;
  // Take the transfer of a prompt that has ended: if layers are sent one by one, all are under way; else it is ready to begin now.
  // Returns when it ends; nothing: `advance` will tell.
  virtual std::optional<double> close(double now, const TransferPath& route, Tokens tokens) = 0;
  // Forget a request whose prompt is to be computed again.
  virtual void forget(Number) {}
  // Whether transfers are under way of which `advance` will tell.
  virtual bool is_under_way() const { return false; }
  // The next moment at which transfers end, and their requests: none if none ends by `until` (nothing: the end).
  virtual Ended advance(std::optional<double>) { return {}; }
};

// Transfers one after another for each instance that sends.
class TransfersInTurn final : public Transfers {
 public:
  // `layers` are sent one by one; 1: a prompt as a whole.
  struct Sender {
    double bytes_per_token = 0.0;
    std::int64_t layers = 1;
    double free_at = 0.0;
  };
  using Seconds = std::function<double(Number, Number, double)>;

  // `senders` has one entry for each instance. `bytes_per_s`: of all transfers; 0: `seconds` takes sender, receiver and bytes.
  TransfersInTurn(double latency_s, std::vector<Sender> senders, double bytes_per_s, Seconds seconds);

  bool by_layer() const override { return by_layer_; }
  void stream(double now, const RoutedChunks& parts) override;
  std::optional<double> close(double now, const TransferPath& route, Tokens tokens) override;

  double total_s = 0.0;
  std::int64_t count = 0;

 private:
  double seconds(const TransferPath& route, Tokens tokens);

  double latency_s_;
  std::vector<Sender> senders_;
  double bytes_per_s_;
  Seconds seconds_;
  bool by_layer_ = false;
  std::unordered_map<Number, double> sent_at_;                                   // the end of the last layer that was sent, by request
  std::unordered_map<std::uint64_t, std::unordered_map<Tokens, double>> known_;  // of a layer, by sender and receiver
};

}  // namespace astra::serving
