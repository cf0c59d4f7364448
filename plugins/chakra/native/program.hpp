// The nodes of a trace as a program: in an order in which each comes after what it waits for, and by what they are like.
// astra_sim_chakra/program.py is the same in Python.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace chakra {

// Numbers of 1, 4 or 8 bytes, one for each row.
class ColumnView {
 public:
  ColumnView(std::string_view bytes, std::size_t rows);
  std::uint64_t operator[](std::size_t row) const {
    switch (width_) {
      case 1: return static_cast<unsigned char>(data_[row]);
      case 4: return load<std::uint32_t>(row);
      default: return load<std::uint64_t>(row);
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
  std::vector<std::uint64_t> after_end;
  std::vector<std::uint32_t> after;    // places, as compressed sparse rows
};

// What nodes are like is in `alike`. `order` is the reader's, empty where that of the file is one. Raises std::invalid_argument.
ProgramColumns make_program(const std::vector<std::uint64_t>& id, const std::vector<std::uint64_t>& control_end,
                            const std::vector<std::uint32_t>& control, const std::vector<std::uint64_t>& data_end,
                            const std::vector<std::uint32_t>& data, const std::vector<std::uint32_t>& order,
                            const std::vector<std::string_view>& alike);

}  // namespace chakra
