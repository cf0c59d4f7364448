// The Python module astra_sim_chakra._core: the reader of nodes, and programs of them. astra_sim_chakra/reader.py and program.py use it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <stdexcept>

#include "program.hpp"
#include "reader.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// A column as bytes; it is given up, so that no more than one is there twice.
template <class T>
nb::bytes taken(std::vector<T>& column) {
  nb::bytes bytes(column.data(), column.size() * sizeof(T));
  std::vector<T>().swap(column);
  return bytes;
}

nb::bytes taken(std::string& text) {
  nb::bytes bytes(text.data(), text.size());
  std::string().swap(text);
  return bytes;
}

std::string_view text(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

template <class T>
std::vector<T> column(const nb::bytes& bytes) {
  if (bytes.size() % sizeof(T)) throw std::invalid_argument("a broken column");
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.c_str(), bytes.size());
  return numbers;
}

std::vector<std::string_view> texts(const std::vector<nb::bytes>& columns) {
  std::vector<std::string_view> result;
  for (const nb::bytes& bytes : columns) result.push_back(text(bytes));
  return result;
}

nb::tuple program(const nb::bytes& id, const nb::bytes& control_end, const nb::bytes& control, const nb::bytes& data_end,
                  const nb::bytes& data, const nb::bytes& order, const std::vector<nb::bytes>& device, const std::vector<nb::bytes>& others,
                  const std::vector<nb::bytes>& work, const nb::bytes& computing) {
  astra::chakra::ProgramColumns created = astra::chakra::make_program(
      {column<std::uint64_t>(id), column<std::uint64_t>(control_end), column<std::uint32_t>(control), column<std::uint64_t>(data_end),
       column<std::uint32_t>(data), column<std::uint32_t>(order), texts(device), texts(others), texts(work), text(computing)});
  return nb::make_tuple(taken(created.rows), taken(created.kinds), taken(created.kind_of), taken(created.works), taken(created.work_of),
                        taken(created.after_end), taken(created.after), taken(created.priorities));
}

nb::dict take_columns(astra::chakra::Reader& reader) {
  astra::chakra::Columns& c = reader.columns;
  nb::dict columns;
  columns["id"] = taken(c.id);
  columns["names"] = taken(c.names);
  columns["name_end"] = taken(c.name_end);
  columns["type"] = taken(c.type);
  columns["duration_ns"] = taken(c.duration_ns);
  columns["control"] = taken(c.control);
  columns["control_end"] = taken(c.control_end);
  columns["data"] = taken(c.data);
  columns["data_end"] = taken(c.data_end);
  columns["is_cpu_op"] = taken(c.is_cpu_op);
  columns["num_ops"] = taken(c.num_ops);
  columns["tensor_size"] = taken(c.tensor_size);
  columns["comm_type"] = taken(c.comm.type);
  columns["comm_priority"] = taken(c.comm.priority);
  columns["comm_size"] = taken(c.comm.size);
  columns["comm_src"] = taken(c.comm.src);
  columns["comm_dst"] = taken(c.comm.dst);
  columns["comm_tag"] = taken(c.comm.tag);
  columns["group"] = taken(c.comm.group);
  columns["involved"] = taken(c.comm.involved);
  columns["others"] = taken(c.others);
  columns["other_end"] = taken(c.other_end);
  columns["order"] = taken(c.order);
  return columns;
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of astra-sim-chakra.";
  module.def("program", &program, "id"_a, "control_end"_a, "control"_a, "data_end"_a, "data"_a, "order"_a, "device"_a, "others"_a, "work"_a,
             "computing"_a);
  nb::exception<astra::chakra::Broken>(module, "Broken", PyExc_ValueError);
  nb::class_<astra::chakra::Reader>(module, "Reader")
      .def(nb::init<std::uint64_t, bool, bool, bool>(), "offset"_a, "keep"_a, "lenient"_a, "control"_a)
      .def("feed", [](astra::chakra::Reader& self, const nb::bytes& bytes) { self.feed({bytes.c_str(), bytes.size()}); })
      .def("finish", &astra::chakra::Reader::finish)
      .def("columns", &take_columns)
      .def_ro("left_out", &astra::chakra::Reader::left_out)
      .def_prop_ro("groups", [](const astra::chakra::Reader& self) { return self.groups; })
      .def_prop_ro("involved_dims", [](const astra::chakra::Reader& self) {
        std::vector<std::vector<bool>> dims;
        for (const std::string& values : self.involved_dims) dims.emplace_back(values.begin(), values.end());
        return dims;
      });
}
