#include "price.hpp"

namespace astra::serving {

void IterationTime::step_together(const std::vector<BatchShape>& shapes, std::vector<Parts>& parts) {
  struct Rank {
    std::int64_t tokens;
    double attention;
    ExpertTimes::Layers layers;
    Ends ends;
    DeviceParts draft;
  };
  std::vector<Rank> ranks;
  std::int64_t most = 1, sampled = 0;
  for (const BatchShape& shape : shapes) {
    ranks.push_back({std::max<std::int64_t>(1, shape.tokens()),
                     attention_->microseconds(shape),
                     {},
                     ends_(shape.sampled + shape.drafts),
                     draft_us(shape)});
    most = std::max(most, ranks.back().tokens);
    sampled = std::max(sampled, shape.sampled);
  }
  std::int64_t tokens = 0;
  double slowest = 0.0, last = 0.0;
  for (Rank& rank : ranks) {
    if (most <= experts_->graph_tokens) rank.tokens = most;
    tokens += rank.tokens;
    rank.layers = experts_->layers(rank.tokens);
    const double layers = sum_of(std::array{rank.layers[0], rank.layers[1]});
    slowest = std::max(slowest, sum_of(std::array{layers, rank.attention, rank.layers[2]}));
    last = std::max(last, sum_of(rank.ends) + sum_of(rank.draft));
  }
  const double experts = experts_->experts(tokens);
  const double body = slowest + experts + experts_->exchange(tokens);
  const double host = host_us(sampled, body + last), whole = body + last;
  parts.clear();
  for (const Rank& rank : ranks) {
    const std::array computed{rank.layers[0] + experts + rank.ends[0] + rank.draft[0], rank.attention + rank.draft[1],
                              rank.layers[1] + rank.ends[1] + rank.draft[2]};
    parts.push_back(seconds({computed[0], computed[1], computed[2], whole - sum_of(computed), host}));
  }
}

}  // namespace astra::serving
