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

class Transfers {
 public:
  using Ended = std::pair<double, std::vector<Number>>;

  virtual ~Transfers() = default;
  // Take the transfer of a request that is ready to begin now. Returns when it ends; nothing: `advance` will tell.
  virtual std::optional<double> begin(double now, Number sender, Number receiver, Tokens tokens, Number request) = 0;
  // Whether transfers are under way of which `advance` will tell.
  virtual bool is_under_way() const { return false; }
  // The next moment at which transfers end, and their requests: none if none ends by `until` (nothing: the end).
  virtual Ended advance(std::optional<double> until) {
    static_cast<void>(until);
    return {};
  }
};

// Transfers one after another for each instance that sends.
class TransfersInTurn final : public Transfers {
 public:
  // Bytes of a prompt with `exposed * tokens * bytes_per_token`.
  struct Sender {
    double exposed = 1.0;
    double bytes_per_token = 0.0;
    double free_at = 0.0;
  };
  using Seconds = std::function<double(Number, Number, double)>;

  // `senders` has one entry for each instance. `bytes_per_s`: of all transfers; 0: `seconds` takes sender, receiver and bytes.
  TransfersInTurn(double latency_s, std::vector<Sender> senders, double bytes_per_s, Seconds seconds)
      : latency_s_(latency_s), senders_(std::move(senders)), bytes_per_s_(bytes_per_s), seconds_(std::move(seconds)) {}

  std::optional<double> begin(double now, Number sender, Number receiver, Tokens tokens, Number request) override;

  double total_s = 0.0;
  std::int64_t count = 0;

 private:
  double seconds(Number sender, Number receiver, Tokens tokens);

  double latency_s_;
  std::vector<Sender> senders_;
  double bytes_per_s_;
  Seconds seconds_;
  std::unordered_map<std::uint64_t, std::unordered_map<Tokens, double>> known_;  // by sender and receiver
};

}  // namespace astra::serving
