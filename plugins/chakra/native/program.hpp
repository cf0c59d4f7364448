// The nodes of a trace as a program: in an order in which each comes after its dependencies, and grouped by equal values.
// astra_sim_chakra/program.py is the same in Python.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace astra::chakra {

// Numbers of 1, 4 or 8 bytes, one for each row.
class ColumnView {
 public:
  ColumnView(std::string_view bytes, std::size_t rows);
  std::uint64_t operator[](std::size_t row) const {
    switch (width_) {
      case 1:
        return static_cast<unsigned char>(data_[row]);
      case 4:
        return load<std::uint32_t>(row);
      default:
        return load<std::uint64_t>(row);
    }
  }

 private:
  template <typename Number>
  Number load(std::size_t row) const {
    Number number;
    std::memcpy(&number, data_ + row * sizeof(Number), sizeof(Number));
    return number;
  }

  const char* data_;
  std::size_t width_;
};

struct ProgramColumns {
  std::vector<std::uint32_t> rows;     // the row of the file of each place in the program; empty where they are the same
  std::vector<std::uint32_t> kinds;    // for each kind of node the first row that is like it
  std::vector<std::uint32_t> kind_of;  // for each place
  std::vector<std::uint32_t> works;    // for each work of nodes that compute the first row that has it
  std::vector<std::uint32_t> work_of;  // for each place; if a node does not compute, the number of works
  std::vector<std::uint64_t> after_end;
  std::vector<std::uint32_t> after;       // places, as compressed sparse rows
  std::vector<std::uint32_t> priorities;  // for each place that of its id among all ids; empty where ids ascend with places
};

// The columns of a trace that a program is made of; `order` is empty where it is that of the file.
struct TraceColumns {
  std::vector<std::uint64_t> id, control_end;
  std::vector<std::uint32_t> control;
  std::vector<std::uint64_t> data_end;
  std::vector<std::uint32_t> data, order;
  std::vector<std::string_view> device;  // the equality key of nodes that compute, and of the others
  std::vector<std::string_view> others;  // the equality key of the others
  std::vector<std::string_view> work;    // the work of nodes
  std::string_view computing;            // a byte each: whether a node computes
};

// Raises std::invalid_argument.
ProgramColumns make_program(const TraceColumns& trace);

}  // namespace astra::chakra
