// A C++ struct that is filled from the attributes of a Python object, such as an options class, by one list of its fields (C++20,
// nanobind).
//
//   struct Rules {
//     int buffers;             // no default: that of the options class is the only one
//     Routing routing;
//   };
//   template <> inline constexpr auto astra::names<Routing> = std::array{"dimension_order", "adaptive"};  // in the order of the
//   enumerators template <> inline constexpr auto astra::fields<Rules> = std::tuple{
//       ASTRA_FIELD(Rules, buffers, 1, 1'000'000),    // the range, if others would break the code
//       ASTRA_FIELD(Rules, routing),
//   };
//   const Rules rules = astra::struct_of<Rules>(options);
//
// Of several objects, an attribute is that of the first one that has it. Throws std::invalid_argument for an attribute that is missing, of
// another type, or out of its range.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace astra {

// A member of a struct with its name in Python, and the range of its values.
template <class Struct, class Value>
struct Field {
  using Bound = std::conditional_t<std::is_arithmetic_v<Value>, Value, int>;

  const char* name;
  Value Struct::* member;
  Bound least = std::numeric_limits<Bound>::lowest();
  Bound most = std::numeric_limits<Bound>::max();
};

#define ASTRA_FIELD(Struct, member, ...) \
  astra::Field<Struct, decltype(Struct::member)> { #member, &Struct::member __VA_OPT__(, ) __VA_ARGS__ }

// The names of an enumeration's values in Python, in their order.
template <class Enum>
inline constexpr std::nullptr_t names = nullptr;

// The fields of a struct.
template <class Struct>
inline constexpr std::nullptr_t fields = nullptr;

namespace detail {

[[noreturn]] inline void refuse(const char* name, const nanobind::handle value, const std::string& expected) {
  throw std::invalid_argument(std::string(name) + " is " + nanobind::repr(value).c_str() + "; expected " + expected);
}

}  // namespace detail

// An attribute, or another value by that name, as a C++ value.
template <class Value>
Value value_of(const char* name, const nanobind::handle attribute) {
  if constexpr (std::is_enum_v<Value>) {
    const auto word = value_of<std::string>(name, attribute);
    const auto entry = std::find(names<Value>.begin(), names<Value>.end(), word);
    if (entry == names<Value>.end()) detail::refuse(name, attribute, "a choice that is known");
    return Value(entry - names<Value>.begin());
  } else {
    Value value{};
    if (!nanobind::try_cast(attribute, value)) detail::refuse(name, attribute, "another type, or a smaller number");
    return value;
  }
}

namespace detail {

template <class Struct, class Value>
void fill(Struct& result, std::initializer_list<nanobind::handle> sources, const Field<Struct, Value>& field) {
  const auto has = [&](const nanobind::handle each) { return nanobind::hasattr(each, field.name); };
  const auto source = std::find_if(sources.begin(), sources.end(), has);
  if (source == sources.end()) throw std::invalid_argument(std::string(field.name) + " is missing");
  const nanobind::object attribute = source->attr(field.name);
  const auto value = value_of<Value>(field.name, attribute);
  if constexpr (std::is_arithmetic_v<Value>) {
    if (value < field.least || value > field.most) {
      refuse(field.name, attribute, std::to_string(field.least) + " to " + std::to_string(field.most));
    }
  }
  result.*field.member = value;
}

}  // namespace detail

// The struct that the attributes of objects describe.
template <class Struct, class... Sources>
Struct struct_of(const Sources&... sources) {
  Struct result{};
  std::apply([&](const auto&... each) { (detail::fill(result, {sources...}, each), ...); }, fields<Struct>);
  return result;
}

}  // namespace astra
