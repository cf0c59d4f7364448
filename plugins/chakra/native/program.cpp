#include "program.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace astra::chakra {

namespace {

constexpr std::uint32_t kNone = 0xffffffff;

// The dependencies of rows, control and data, each once.
class Dependencies {
 public:
  Dependencies(const std::vector<std::uint64_t>& control_end, const std::vector<std::uint32_t>& control,
               const std::vector<std::uint64_t>& data_end, const std::vector<std::uint32_t>& data, std::size_t rows)
      : control_end_(control_end), control_(control), data_end_(data_end), data_(data), seen_(rows, kNone) {
    check(control_end, control, rows);
    check(data_end, data, rows);
  }

  template <typename Action>
  void each(std::uint32_t row, const Action& action) {
    each_of(control_end_, control_, row, action);
    each_of(data_end_, data_, row, action);
  }

 private:
  static void check(const std::vector<std::uint64_t>& ends, const std::vector<std::uint32_t>& others, std::size_t rows) {
    if (ends.size() != rows || !std::is_sorted(ends.begin(), ends.end()) || (rows ? ends.back() : 0) != others.size() ||
        std::any_of(others.begin(), others.end(), [rows](std::uint32_t other) { return other >= rows; })) {
      throw std::invalid_argument("broken columns of dependencies");
    }
  }

  template <typename Action>
  void each_of(const std::vector<std::uint64_t>& ends, const std::vector<std::uint32_t>& others, std::uint32_t row, const Action& action) {
    for (std::uint64_t at = row ? ends[row - 1] : 0; at < ends[row]; ++at) {
      if (seen_[others[at]] == row) continue;
      seen_[others[at]] = row;
      action(others[at]);
    }
  }

  const std::vector<std::uint64_t>& control_end_;
  const std::vector<std::uint32_t>& control_;
  const std::vector<std::uint64_t>& data_end_;
  const std::vector<std::uint32_t>& data_;
  std::vector<std::uint32_t> seen_;  // the row for which another was last met
};

// Numbers rows by their values in some columns, in a table of 2^n places. The numbers are places in `firsts`, which may be shared.
class Kinds {
 public:
  Kinds(std::vector<ColumnView> alike, std::vector<std::uint32_t>& firsts)
      : alike_(std::move(alike)), firsts_(firsts), places_(1024, kNone) {}

  std::uint32_t of(std::uint32_t row) {
    std::size_t place = hash(row) & (places_.size() - 1);
    for (; places_[place] != kNone; place = (place + 1) & (places_.size() - 1)) {
      if (equal(firsts_[places_[place]], row)) return places_[place];
    }
    const auto kind = static_cast<std::uint32_t>(firsts_.size());
    places_[place] = kind;
    firsts_.push_back(row);
    if (++count_ * 2 > places_.size()) grow();
    return kind;
  }

 private:
  std::uint64_t hash(std::uint32_t row) const {
    std::uint64_t hash = 0;
    for (const ColumnView& column : alike_) {
      hash = (hash ^ column[row]) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash;
  }

  bool equal(std::uint32_t a, std::uint32_t b) const {
    return std::all_of(alike_.begin(), alike_.end(), [=](const ColumnView& column) { return column[a] == column[b]; });
  }

  void grow() {
    std::vector<std::uint32_t> places(places_.size() * 2, kNone);
    for (const std::uint32_t kind : places_) {
      if (kind == kNone) continue;
      std::size_t place = hash(firsts_[kind]) & (places.size() - 1);
      while (places[place] != kNone) place = (place + 1) & (places.size() - 1);
      places[place] = kind;
    }
    places_.swap(places);
  }

  std::vector<ColumnView> alike_;
  std::vector<std::uint32_t>& firsts_;
  std::vector<std::uint32_t> places_;
  std::size_t count_ = 0;
};

std::vector<ColumnView> views(const std::vector<std::string_view>& columns, std::size_t rows) {
  std::vector<ColumnView> result;
  for (const std::string_view bytes : columns) result.emplace_back(bytes, rows);
  return result;
}

std::vector<std::uint32_t> inverse(const std::vector<std::uint32_t>& rows) {
  std::vector<std::uint32_t> places(rows.size(), kNone);
  for (std::uint32_t place = 0; place < rows.size(); ++place) {
    if (rows[place] >= rows.size() || places[rows[place]] != kNone) throw std::invalid_argument("a broken order");
    places[rows[place]] = place;
  }
  return places;
}

}  // namespace

ColumnView::ColumnView(std::string_view bytes, std::size_t rows) : data_(bytes.data()), width_(rows ? bytes.size() / rows : 1) {
  if (width_ * rows != bytes.size() || (width_ != 1 && width_ != 4 && width_ != 8)) throw std::invalid_argument("a broken column");
}

ProgramColumns make_program(const TraceColumns& trace) {
  const std::vector<std::uint64_t>& id = trace.id;
  const std::vector<std::uint32_t>& order = trace.order;
  const std::size_t count = id.size();
  if (count >= kNone || trace.computing.size() != count || (!order.empty() && order.size() != count))
    throw std::invalid_argument("broken columns");
  Dependencies dependencies(trace.control_end, trace.control, trace.data_end, trace.data, count);
  ProgramColumns result;
  std::vector<std::uint32_t> rows = order;
  if (order.empty()) {
    rows.resize(count);
    std::iota(rows.begin(), rows.end(), 0u);
  }
  const std::vector<std::uint32_t> places = inverse(rows);
  const auto lower_id = [&](std::uint32_t a, std::uint32_t b) { return id[a] < id[b]; };
  if (!std::is_sorted(rows.begin(), rows.end(), lower_id)) {
    std::vector<std::uint32_t> by_id = rows;
    std::sort(by_id.begin(), by_id.end(), lower_id);
    result.priorities.resize(count);
    for (std::uint32_t rank = 0; rank < count; ++rank) result.priorities[places[by_id[rank]]] = rank;
  }
  Kinds computes(views(trace.device, count), result.kinds), others(views(trace.others, count), result.kinds),
      works(views(trace.work, count), result.works);
  result.kind_of.reserve(count);
  result.work_of.reserve(count);
  result.after_end.reserve(count);
  result.after.reserve(trace.control.size() + trace.data.size());
  for (const std::uint32_t row : rows) {
    const bool does = trace.computing[row] != 0;
    result.kind_of.push_back((does ? computes : others).of(row));
    result.work_of.push_back(does ? works.of(row) : kNone);
    dependencies.each(row, [&](std::uint32_t other) { result.after.push_back(places[other]); });
    result.after_end.push_back(result.after.size());
  }
  std::replace(result.work_of.begin(), result.work_of.end(), kNone, static_cast<std::uint32_t>(result.works.size()));
  if (!std::is_sorted(rows.begin(), rows.end())) result.rows = std::move(rows);
  return result;
}

}  // namespace astra::chakra
