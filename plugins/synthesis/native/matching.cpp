#include "matching.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <utility>

namespace astra::synthesis {
namespace {

constexpr double same_time = 1e-6;

// xorshift: ties need no better numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL) {}

  std::uint32_t below(std::uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 32) * limit >> 32);
  }

 private:
  std::uint64_t state_;
};

// What attempts share: edges by target, by source and by link, in compressed rows.
class Rows {
 public:
  Rows(std::size_t count, const std::vector<std::pair<std::int32_t, std::int32_t>>& entries) : first_(count + 1), values_(entries.size()) {
    for (const auto& [row, value] : entries) ++first_[row + 1];
    for (std::size_t row = 0; row < count; ++row) first_[row + 1] += first_[row];
    std::vector<std::int32_t> place(first_.begin(), first_.end() - 1);
    for (const auto& [row, value] : entries) values_[place[row]++] = value;
  }

  const std::int32_t* begin(std::int32_t row) const { return values_.data() + first_[row]; }
  const std::int32_t* end(std::int32_t row) const { return values_.data() + first_[row + 1]; }

 private:
  std::vector<std::int32_t> first_, values_;
};

template <class Key>
Rows edges_by(std::size_t count, const MatchingGraph& graph, Key key) {
  std::vector<std::pair<std::int32_t, std::int32_t>> entries;
  entries.reserve(graph.source.size());
  for (std::size_t edge = 0; edge < graph.source.size(); ++edge) key(static_cast<std::int32_t>(edge), entries);
  return Rows(count, entries);
}

// What happens at which time: arrivals of transfers (0 and above), and links that are free (-1 - link). Times are few, as messages are of
// one size: a sorted list of them, each with all that happens then.
class Calendar {
 public:
  bool empty() const { return next_ == moments_.size(); }

  double time() const { return moments_[next_].time; }

  void add(double time, std::int32_t what) {
    auto at = moments_.end();
    while (at != moments_.begin() + next_ && std::prev(at)->time > time - same_time) --at;
    if (at == moments_.end() || at->time > time + same_time) {
      at = moments_.insert(at, Moment{time, {}});
      if (!spare_.empty()) {
        at->what.swap(spare_.back());
        spare_.pop_back();
      }
    }
    at->what.push_back(what);
  }

  // Take all that happens at the next time.
  void take(std::vector<std::int32_t>& what) {
    what.swap(moments_[next_].what);
    moments_[next_].what.clear();
    spare_.push_back(std::move(moments_[next_].what));
    if (++next_ == moments_.size() || next_ > 64) {
      moments_.erase(moments_.begin(), moments_.begin() + next_);
      next_ = 0;
    }
  }

 private:
  struct Moment {
    double time;
    std::vector<std::int32_t> what;
  };

  std::vector<Moment> moments_;
  std::vector<std::vector<std::int32_t>> spare_;
  std::size_t next_ = 0;
};

// How many ranks have or will have each piece, and the fewest of these numbers.
class Copies {
 public:
  void start(std::int32_t ranks, std::int32_t pieces) {
    of_.assign(pieces, 1);
    pieces_with_.assign(ranks + 1, 0);
    pieces_with_[1] = pieces;
    fewest_ = 1;
  }

  std::int32_t of(std::int32_t piece) const { return of_[piece]; }
  std::int32_t fewest() const { return fewest_; }

  void add(std::int32_t piece) {
    --pieces_with_[of_[piece]];
    ++pieces_with_[++of_[piece]];
    while (fewest_ + 1 < static_cast<std::int32_t>(pieces_with_.size()) && !pieces_with_[fewest_]) ++fewest_;
  }

 private:
  std::vector<std::int32_t> of_, pieces_with_;
  std::int32_t fewest_ = 1;
};

class Attempt {
 public:
  Attempt(const MatchingGraph& graph, std::int32_t pieces)
      : graph_(graph),
        pieces_(pieces),
        total_(graph.ranks * pieces),
        words_((total_ + 63) / 64),
        shares_links_(graph.links.size() > graph.source.size()),
        into_(edges_by(graph.ranks, graph, [&](auto e, auto& list) { list.emplace_back(graph.target[e], e); })),
        out_of_(edges_by(graph.ranks, graph, [&](auto e, auto& list) { list.emplace_back(graph.source[e], e); })),
        over_(edges_by(graph.busy.size(), graph,
                       [&](auto e, auto& list) {
                         for (auto at = graph.first_link[e]; at < graph.first_link[e + 1]; ++at) list.emplace_back(graph.links[at], e);
                       })),
        slowest_(graph.source.size()),
        has_faster_(graph.source.size()) {
    for (std::size_t edge = 0; edge < slowest_.size(); ++edge) {
      for (auto at = graph.first_link[edge]; at < graph.first_link[edge + 1]; ++at)
        slowest_[edge] = std::max(slowest_[edge], graph.busy[graph.links[at]]);
    }
    for (std::size_t edge = 0; edge < slowest_.size(); ++edge) {
      const auto target = graph.target[edge];
      has_faster_[edge] =
          std::any_of(into_.begin(target), into_.end(target), [&](auto other) { return slowest_[other] < slowest_[edge] - same_time; });
    }
  }

  // Whether the times of edges differ, so that a goal matters.
  bool is_uneven() const { return std::find(has_faster_.begin(), has_faster_.end(), true) != has_faster_.end(); }

  // A time before which some rank cannot have all pieces: its links bring whole pieces, each as fast as it can.
  double least() const {
    double result = 0;
    for (std::int32_t rank = 0; rank < graph_.ranks; ++rank) {
      std::vector<std::int32_t> last;
      double latency = std::numeric_limits<double>::infinity();
      for (auto at = into_.begin(rank); at != into_.end(rank); ++at) {
        last.push_back(graph_.links[graph_.first_link[*at + 1] - 1]);
        latency = std::min(latency, graph_.latency[*at]);
      }
      std::sort(last.begin(), last.end());
      last.erase(std::unique(last.begin(), last.end()), last.end());
      const auto [fastest, slowest] =
          std::minmax_element(last.begin(), last.end(), [&](auto a, auto b) { return graph_.busy[a] < graph_.busy[b]; });
      if (!last.empty() && graph_.busy[*fastest] == graph_.busy[*slowest]) {
        const auto count = static_cast<std::int32_t>(last.size());
        result = std::max(result, (total_ - pieces_ + count - 1) / count * graph_.busy[*fastest] + latency);
        continue;
      }
      std::priority_queue<std::pair<double, double>, std::vector<std::pair<double, double>>, std::greater<>> next;
      for (const auto link : last) next.emplace(graph_.busy[link], graph_.busy[link]);
      double time = 0;
      for (std::int32_t piece = pieces_; piece < total_ && !next.empty(); ++piece) {
        const auto [at, each] = next.top();
        next.pop();
        time = at;
        next.emplace(at + each, each);
      }
      result = std::max(result, time + latency);
    }
    return result;
  }

  // Match until every rank has every piece, with edges that leave to faster ones what they would bring after `goal`. Returns the time;
  // infinity if some pieces never get there.
  double run(std::uint64_t seed, double goal, std::vector<Sent>& sent) {
    start(seed, sent);
    goal_ = goal;
    double end = 0;
    for (std::int32_t rank = 0; rank < graph_.ranks; ++rank) match(rank, 0.0, sent);
    std::vector<std::int32_t> happens;
    while (!events_.empty()) {
      const double now = events_.time();
      events_.take(happens);
      for (const auto what : happens) {
        if (what < 0) {
          for (auto at = over_.begin(-1 - what); at != over_.end(-1 - what); ++at) wake(graph_.target[*at]);
          continue;
        }
        const Sent& arrived = sent[what];
        const auto at = graph_.target[arrived.edge];
        held(at)[arrived.piece >> 6] |= std::uint64_t{1} << (arrived.piece & 63);
        end = arrived.arrival;
        wake(at);
        for (auto edge = out_of_.begin(at); edge != out_of_.end(at); ++edge) wake(graph_.target[*edge]);
      }
      happens.clear();
      match_woken(now, sent);
      if (events_.empty() && left_) {
        goal_ = std::numeric_limits<double>::infinity();
        for (std::int32_t rank = 0; rank < graph_.ranks; ++rank) match(rank, now, sent);
      }
    }
    return left_ ? std::numeric_limits<double>::infinity() : end;
  }

 private:
  std::uint64_t* held(std::int32_t rank) { return held_.data() + static_cast<std::size_t>(rank) * words_; }
  std::uint64_t* wanted(std::int32_t rank) { return wanted_.data() + static_cast<std::size_t>(rank) * words_; }

  void start(std::uint64_t seed, std::vector<Sent>& sent) {
    random_ = Random(seed);
    held_.assign(static_cast<std::size_t>(graph_.ranks) * words_, 0);
    wanted_.assign(held_.size(), ~std::uint64_t{0});
    left_ = static_cast<std::int64_t>(total_) * (graph_.ranks - 1);
    copies_.start(graph_.ranks, total_);
    free_at_.assign(graph_.busy.size(), 0.0);
    woken_.assign((graph_.ranks + 63) / 64, 0);
    sent.clear();
    sent.reserve(left_);
    for (std::int32_t rank = 0; rank < graph_.ranks; ++rank) {
      if (total_ & 63) wanted(rank)[words_ - 1] = (std::uint64_t{1} << (total_ & 63)) - 1;
      for (auto piece = rank * pieces_; piece < (rank + 1) * pieces_; ++piece) {
        held(rank)[piece >> 6] |= std::uint64_t{1} << (piece & 63);
        wanted(rank)[piece >> 6] &= ~(std::uint64_t{1} << (piece & 63));
      }
    }
  }

  void wake(std::int32_t rank) { woken_[rank >> 6] |= std::uint64_t{1} << (rank & 63); }

  // Match the ranks for which something is new, from a random group of 64 on.
  void match_woken(double now, std::vector<Sent>& sent) {
    const auto groups = static_cast<std::uint32_t>(woken_.size());
    const auto first = random_.below(groups);
    for (std::uint32_t number = 0; number < groups; ++number) {
      const auto group = (first + number) % groups;
      auto bits = std::exchange(woken_[group], 0);
      for (; bits; bits &= bits - 1) match(static_cast<std::int32_t>(group * 64 + std::countr_zero(bits)), now, sent);
    }
  }

  bool is_free(std::int32_t edge, double now) const {
    for (auto at = graph_.first_link[edge]; at < graph_.first_link[edge + 1]; ++at)
      if (free_at_[graph_.links[at]] > now + same_time) return false;
    return true;
  }

  // How many pieces an edge could bring that its target misses.
  int choices(std::int32_t edge) {
    const auto* have = held(graph_.source[edge]);
    const auto* want = wanted(graph_.target[edge]);
    int count = 0;
    for (std::int32_t word = 0; word < words_; ++word) count += std::popcount(have[word] & want[word]);
    return count;
  }

  // Give free edges to a rank a piece each, the edge that can bring the fewest pieces first.
  void match(std::int32_t rank, double now, std::vector<Sent>& sent) {
    idle_.clear();
    for (auto at = into_.begin(rank); at != into_.end(rank); ++at) {
      if (!is_free(*at, now) || (has_faster_[*at] && now + slowest_[*at] + graph_.latency[*at] > goal_ + same_time)) continue;
      if (const int count = choices(*at)) idle_.emplace_back(*at, count);
    }
    while (!idle_.empty()) {
      std::size_t chosen = 0;
      std::uint32_t ties = 1;
      for (std::size_t place = 1; place < idle_.size(); ++place) {
        const int more = idle_[place].second - idle_[chosen].second;
        if (more < 0) ties = 1;
        if (more < 0 || (more == 0 && !random_.below(++ties))) chosen = place;
      }
      const auto edge = idle_[chosen].first;
      idle_[chosen] = idle_.back();
      idle_.pop_back();
      const auto piece = rarest(edge);
      send(edge, piece, now, sent);
      std::size_t remaining = 0;
      for (auto [other, count] : idle_) {
        count -= static_cast<int>(held(graph_.source[other])[piece >> 6] >> (piece & 63) & 1);
        if (count && (!shares_links_ || is_free(other, now))) idle_[remaining++] = {other, count};
      }
      idle_.resize(remaining);
    }
  }

  // The piece that the fewest ranks have or will have, of those that an edge can bring; ties from a random place on.
  std::int32_t rarest(std::int32_t edge) {
    const auto* have = held(graph_.source[edge]);
    const auto* want = wanted(graph_.target[edge]);
    const auto from = random_.below(static_cast<std::uint32_t>(total_));
    const std::int32_t first = static_cast<std::int32_t>(from >> 6);
    std::int32_t best = -1, copies = std::numeric_limits<std::int32_t>::max();
    for (std::int32_t number = 0; number <= words_; ++number) {
      const auto word = first + number < words_ ? first + number : first + number - words_;
      auto bits = have[word] & want[word];
      const auto later = ~std::uint64_t{0} << (from & 63);
      if (number == 0) bits &= later;
      if (number == words_) bits &= ~later;
      for (; bits; bits &= bits - 1) {
        const auto piece = word * 64 + std::countr_zero(bits);
        if (copies_.of(piece) >= copies) continue;
        best = piece;
        copies = copies_.of(piece);
        if (copies == copies_.fewest()) return best;
      }
    }
    return best;
  }

  void send(std::int32_t edge, std::int32_t piece, double now, std::vector<Sent>& sent) {
    const double arrival = now + slowest_[edge] + graph_.latency[edge];
    events_.add(arrival, static_cast<std::int32_t>(sent.size()));
    sent.push_back({edge, piece, now, arrival});
    wanted(graph_.target[edge])[piece >> 6] &= ~(std::uint64_t{1} << (piece & 63));
    for (auto at = graph_.first_link[edge]; at < graph_.first_link[edge + 1]; ++at) {
      const auto link = graph_.links[at];
      free_at_[link] = now + graph_.busy[link];
      // An arrival wakes its rank: a link of this edge alone that is free then needs no event of its own.
      if (shares_links_ || free_at_[link] < arrival - same_time) events_.add(free_at_[link], -1 - link);
    }
    --left_;
    copies_.add(piece);
  }

  const MatchingGraph& graph_;
  const std::int32_t pieces_, total_, words_;
  const bool shares_links_;
  const Rows into_, out_of_, over_;
  std::vector<double> slowest_;
  std::vector<bool> has_faster_;
  double goal_ = 0;
  Random random_{0};
  std::vector<std::uint64_t> held_, wanted_;
  Copies copies_;
  std::vector<std::pair<std::int32_t, int>> idle_;
  std::int64_t left_ = 0;
  std::vector<double> free_at_;
  std::vector<std::uint64_t> woken_;  // a bit for each rank
  Calendar events_;
};

}  // namespace

Matching best_matching(const MatchingGraph& graph, std::int32_t pieces, std::int32_t attempts) {
  Attempt attempt(graph, pieces);
  Matching best{{}, std::numeric_limits<double>::infinity(), attempt.least()};
  std::vector<Sent> sent;
  for (std::int32_t number = 0; number < attempts && best.time > best.least + same_time; ++number) {
    const double goal = number % 2 ? std::numeric_limits<double>::infinity() : best.least * (1 + 0.001 * number);
    const double time = attempt.run(1 + number, goal, sent);
    if (time < best.time) {
      best.time = time;
      std::swap(best.sent, sent);
    }
  }
  return best;
}

}  // namespace astra::synthesis
