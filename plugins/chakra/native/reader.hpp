// Reads the nodes of a Chakra execution trace into columns. astra_sim_chakra/pure.py is the same in Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire.hpp"

namespace astra::chakra {

// What nodes communicate, with whom and over which dimensions.
struct CommColumns {
  std::vector<std::int8_t> type;
  std::vector<std::int64_t> size;
  std::vector<std::int32_t> priority, src, dst, tag, group, involved;
};

// A value for every node, -1 if the node has none, but for tags, priorities and the rest of a duration: 0.
struct Columns {
  std::vector<std::uint64_t> id, name_end, other_end;
  std::vector<std::int8_t> type, is_cpu_op;
  std::vector<std::int64_t> duration_ns, num_ops, tensor_size;
  CommColumns comm;
  std::vector<std::uint64_t> control_end, data_end;
  std::vector<std::uint32_t> control, data, order;  // rows; an empty order is that of the file, in which ids then ascend
  std::string names, others;
};

class Reader {
 public:
  // `offset`: where in the file the nodes begin. `keep`: keep the fields for which there is no column. `lenient`: leave out control
  // dependencies on nodes that are not in the file. `control`: follow control dependencies; else nodes have none.
  Reader(std::uint64_t offset, bool keep, bool lenient, bool control)
      : offset_(offset), keep_(keep), lenient_(lenient), control_(control) {}

  // The next bytes of the file.
  void feed(std::string_view bytes);
  // The file has ended: check ids and dependencies, and find an order.
  void finish();

  Columns columns;
  std::vector<std::string> groups;
  std::vector<std::string> involved_dims;  // a byte for each dimension
  std::uint64_t left_out = 0;              // control dependencies

 private:
  struct Attribute {
    std::string_view name;
    Field value{};
  };
  using Index = std::unordered_map<std::string, std::int32_t>;

  std::size_t consume(std::string_view bytes);
  void node(std::string_view message);
  // The row of a node that has been read.
  void add_row(std::uint64_t id, std::uint64_t type, std::uint64_t duration, std::string_view name,
               const std::vector<Attribute>& attributes);
  void attribute(std::size_t row, const Attribute& result, std::uint32_t& arguments);
  // Add a duration's fraction of a microsecond.
  void add_rest(std::size_t row, const Field& value, const char* name);
  static Attribute parse_attribute(std::string_view message);
  static void dependencies(const Field& field, const char* name, std::vector<std::uint64_t>& into);
  static std::int32_t intern(Index& index, std::vector<std::string>& values, std::string_view value);
  std::string label(std::size_t row) const;
  void check_ids();
  bool find(std::uint64_t id, std::uint32_t& row) const;
  void resolve(std::vector<std::uint64_t>& ids, std::vector<std::uint64_t>& ends, std::vector<std::uint32_t>& rows, bool control);
  template <typename Action>
  void each_dependency(std::size_t row, bool control, const Action& action) const;
  void sort();
  std::vector<std::uint32_t> sorted(bool control, std::vector<std::uint32_t>& waits) const;
  std::string circle(const std::vector<std::uint32_t>& waits) const;

  std::uint64_t offset_;
  bool keep_, lenient_, control_;
  bool broken_ = false;
  std::string pending_;  // the beginning of a message that is not complete
  std::vector<std::uint64_t> control_ids_, data_ids_;
  std::vector<std::uint32_t> by_id_;  // rows, if ids do not ascend
  Index group_index_, involved_index_;
};

}  // namespace astra::chakra
