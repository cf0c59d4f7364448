#include "reader.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <queue>

namespace astra::chakra {

namespace {

constexpr std::uint64_t kMaxMessage = 1u << 26;
constexpr std::size_t kMaxNodes = 1u << 24;
constexpr std::int64_t kMaxMicroseconds = std::numeric_limits<std::int64_t>::max() / 1000;
constexpr std::size_t kCycleShown = 10;

using Wide = __int128;

std::string words(Wide value) {
  if (value < 0) return "-" + words(-value);
  return std::to_string(static_cast<std::uint64_t>(value));
}

// The members of AttributeProto's oneof: names, and the wire type of each.
constexpr const char* kMembers[33] = {nullptr,         nullptr,        nullptr,         "double_val",  "double_list",  "float_val",
                                      "float_list",    "int32_val",    "int32_list",    "int64_val",   "int64_list",   "uint32_val",
                                      "uint32_list",   "uint64_val",   "uint64_list",   "sint32_val",  "sint32_list",  "sint64_val",
                                      "sint64_list",   "fixed32_val",  "fixed32_list",  "fixed64_val", "fixed64_list", "sfixed32_val",
                                      "sfixed32_list", "sfixed64_val", "sfixed64_list", "bool_val",    "bool_list",    "string_val",
                                      "string_list",   "bytes_val",    "bytes_list"};

std::uint32_t wire_type(std::uint32_t member) {
  switch (member) {
    case 3:
    case 21:
    case 25:
      return kFixed64;
    case 5:
    case 19:
    case 23:
      return kFixed32;
    case 7:
    case 9:
    case 11:
    case 13:
    case 15:
    case 17:
    case 27:
      return kVarint;
    default:
      return kLength;
  }
}

bool integer(const Field& field, Wide& value) {
  const std::uint64_t raw = field.value;
  switch (field.number) {
    case 7:
    case 23:
      value = static_cast<std::int32_t>(raw);
      return true;
    case 9:
    case 25:
      value = static_cast<std::int64_t>(raw);
      return true;
    case 11:
    case 19:
      value = static_cast<std::uint32_t>(raw);
      return true;
    case 13:
    case 21:
      value = raw;
      return true;
    case 15:
      value = static_cast<std::int32_t>((static_cast<std::uint32_t>(raw) >> 1) ^ (~(static_cast<std::uint32_t>(raw) & 1) + 1));
      return true;
    case 17:
      value = static_cast<std::int64_t>((raw >> 1) ^ (~(raw & 1) + 1));
      return true;
    default:
      return false;
  }
}

constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

// Attributes with a column of their own, in the order of Reader::attribute.
constexpr const char* kKnown[] = {"is_cpu_op", "num_ops",  "tensor_size", "comm_type", "comm_priority", "comm_size",
                                  "comm_src",  "comm_dst", "comm_tag",    "pg_name",   "involved_dim",  "astra_duration_rest_ns"};

std::size_t index_of(std::string_view name) {
  return static_cast<std::size_t>(std::find(std::begin(kKnown), std::end(kKnown), name) - std::begin(kKnown));
}

bool is_known(std::string_view name) { return index_of(name) < std::size(kKnown); }

const char* member_name(const Field& field) { return field.number ? kMembers[field.number] : "attribute without a value"; }

std::int64_t whole(const Field& field, const char* name, std::int64_t least, std::int64_t most) {
  Wide value;
  if (!integer(field, value)) throw Broken(std::string(name) + " is a " + member_name(field) + "; expected a whole number");
  if (value < least || value > most) {
    throw Broken(std::string(name) + " is " + words(value) + "; expected " + words(least) + " to " + words(most));
  }
  return static_cast<std::int64_t>(value);
}

// The values of a bool_list, a byte each.
std::string bools(std::string_view message) {
  std::string values;
  Message fields(message);
  Field field;
  while (fields.next(field)) {
    if (field.number != 1) continue;
    if (field.type == kVarint) {
      values.push_back(static_cast<char>(field.value != 0));
      continue;
    }
    expect(field, kLength, "the values of a bool_list");
    const char* at = field.bytes.data();
    const char* const end = at + field.bytes.size();
    std::uint64_t value;
    while (at != end) {
      if (!read_varint(at, end, value)) throw Broken("the values of a bool_list end in the middle of a varint");
      values.push_back(static_cast<char>(value != 0));
    }
  }
  return values;
}

}  // namespace

void Reader::feed(std::string_view bytes) {
  if (broken_) throw Broken("the reader has failed before");
  broken_ = true;  // unless this comes to its end
  if (pending_.empty()) {
    pending_ = bytes.substr(consume(bytes));
  } else {
    pending_.append(bytes);
    pending_.erase(0, consume(pending_));
  }
  broken_ = false;
}

// Reads the complete messages at the beginning of `bytes`; returns how many bytes that were.
std::size_t Reader::consume(std::string_view bytes) {
  const char* const end = bytes.data() + bytes.size();
  const char* begin = bytes.data();
  while (true) {
    const char* at = begin;
    std::uint64_t size;
    try {
      if (!read_varint(at, end, size)) break;
    } catch (const Broken&) {
      throw Broken("byte " + std::to_string(offset_) + ": the length of a message is a varint of more than 64 bits");
    }
    if (size > kMaxMessage) {
      throw Broken("byte " + std::to_string(offset_) + ": a message of " + std::to_string(size) + " bytes; expected at most " +
                   std::to_string(kMaxMessage));
    }
    if (static_cast<std::uint64_t>(end - at) < size) break;
    node({at, size});
    offset_ += static_cast<std::uint64_t>(at - begin) + size;
    begin = at + size;
  }
  return static_cast<std::size_t>(begin - bytes.data());
}

void Reader::node(std::string_view message) {
  Columns& c = columns;
  if (c.id.size() == kMaxNodes) throw Broken("more than " + std::to_string(kMaxNodes) + " nodes; expected at most that");
  std::uint64_t id = 0, type = 0, duration = 0;
  std::string_view name;
  std::vector<Attribute> attributes;
  try {
    Message fields(message);
    Field field;
    while (fields.next(field)) {
      bool other = false;
      switch (field.number) {
        case 1:
          expect(field, kVarint, "id");
          id = field.value;
          break;
        case 2:
          name = text(field, "name");
          break;
        case 3:
          expect(field, kVarint, "type");
          type = field.value;
          break;
        case 4:
          dependencies(field, "ctrl_deps", control_ids_);
          break;
        case 5:
          dependencies(field, "data_deps", data_ids_);
          break;
        case 7:
          expect(field, kVarint, "duration_micros");
          duration = field.value;
          break;
        case 10:
          expect(field, kLength, "attr");
          attributes.push_back(parse_attribute(field.bytes));
          other = !is_known(attributes.back().name);
          if (other) attributes.pop_back();
          break;
        default:
          other = true;
      }
      if (other && keep_) c.others.append(field.begin, fields.position());
    }
  } catch (const Broken& broken) {
    throw Broken("byte " + std::to_string(offset_) + ": node of " + std::to_string(message.size()) + " bytes: " + broken.what());
  }
  add_row(id, type, duration, name, attributes);
}

void Reader::add_row(std::uint64_t id, std::uint64_t type, std::uint64_t duration, std::string_view name,
                     const std::vector<Attribute>& attributes) {
  Columns& c = columns;
  const std::size_t row = c.id.size();
  c.id.push_back(id);
  c.names.append(name);
  c.name_end.push_back(c.names.size());
  try {
    const auto kind = static_cast<std::int32_t>(type);  // as protobuf reads an enumeration
    if (kind < 0 || kind > 7) throw Broken("type is " + words(kind) + "; expected 0 to 7");
    if (duration > kMaxMicroseconds) {
      throw Broken("duration_micros is " + std::to_string(duration) + "; expected at most " + std::to_string(kMaxMicroseconds));
    }
    c.type.push_back(static_cast<std::int8_t>(kind));
    c.duration_ns.push_back(static_cast<std::int64_t>(duration) * 1000);
    c.control_end.push_back(control_ids_.size());
    c.data_end.push_back(data_ids_.size());
    c.is_cpu_op.push_back(-1);
    c.num_ops.push_back(-1);
    c.tensor_size.push_back(-1);
    c.comm.type.push_back(-1);
    c.comm.priority.push_back(0);
    c.comm.size.push_back(-1);
    c.comm.src.push_back(-1);
    c.comm.dst.push_back(-1);
    c.comm.tag.push_back(0);
    c.comm.group.push_back(-1);
    c.comm.involved.push_back(-1);
    if (keep_) c.other_end.push_back(c.others.size());
    std::uint32_t arguments = 0;
    for (const Attribute& result : attributes) attribute(row, result, arguments);
  } catch (const Broken& broken) {
    throw Broken(label(row) + ": " + broken.what());
  }
}

// The index of a known attribute, which is noted in `given`; an error where it is there already.
static std::size_t index_once(std::string_view name, std::uint32_t& arguments) {
  const std::size_t index = index_of(name);
  if (arguments >> index & 1) throw Broken(std::string(kKnown[index]) + " is given twice");
  arguments |= 1u << index;
  return index;
}

void Reader::attribute(std::size_t row, const Attribute& result, std::uint32_t& arguments) {
  Columns& c = columns;
  const std::size_t index = index_once(result.name, arguments);
  const char* const name = kKnown[index];
  const Field& value = result.value;
  switch (index) {
    case 0:
      c.is_cpu_op[row] = static_cast<std::int8_t>(value.number == 27 ? value.value != 0 : whole(value, name, 0, 1));
      break;
    case 1:
      c.num_ops[row] = whole(value, name, 0, kMost64);
      break;
    case 2:
      c.tensor_size[row] = whole(value, name, 0, kMost64);
      break;
    case 3:
      c.comm.type[row] = static_cast<std::int8_t>(whole(value, name, 0, 9));
      break;
    case 4:
      c.comm.priority[row] = static_cast<std::int32_t>(whole(value, name, -kMost32 - 1, kMost32));
      break;
    case 5:
      c.comm.size[row] = whole(value, name, 0, kMost64);
      break;
    case 6:
      c.comm.src[row] = static_cast<std::int32_t>(whole(value, name, 0, kMost32));
      break;
    case 7:
      c.comm.dst[row] = static_cast<std::int32_t>(whole(value, name, 0, kMost32));
      break;
    case 8:
      c.comm.tag[row] = static_cast<std::int32_t>(whole(value, name, -kMost32 - 1, kMost32));
      break;
    case 9:
      if (value.number != 29) throw Broken(std::string(name) + " is a " + member_name(value) + "; expected a string_val");
      if (!is_utf8(value.bytes)) throw Broken(std::string(name) + " is not text in UTF-8");
      c.comm.group[row] = intern(group_index_, groups, value.bytes);
      break;
    case 10:
      if (value.number != 28) throw Broken(std::string(name) + " is a " + member_name(value) + "; expected a bool_list");
      c.comm.involved[row] = intern(involved_index_, involved_dims, bools(value.bytes));
      break;
    default:
      add_rest(row, value, name);
  }
}

void Reader::add_rest(std::size_t row, const Field& value, const char* name) {
  const std::int64_t rest = whole(value, name, -999, 999);
  std::int64_t& duration = columns.duration_ns[row];
  if (rest < -duration || rest > kMost64 - duration) {
    throw Broken(std::string(name) + " is " + std::to_string(rest) + ", which makes the duration negative or too long");
  }
  duration += rest;
}

Reader::Attribute Reader::parse_attribute(std::string_view message) {
  Attribute result;
  Message fields(message);
  Field field;
  while (fields.next(field)) {
    if (field.number == 1) {
      result.name = text(field, "the name of an attribute");
    } else if (field.number >= 3 && field.number <= 32) {
      expect(field, wire_type(field.number), kMembers[field.number]);
      result.value = field;
    }
  }
  return result;
}

void Reader::dependencies(const Field& field, const char* name, std::vector<std::uint64_t>& into) {
  if (field.type == kVarint) {
    into.push_back(field.value);
    return;
  }
  expect(field, kLength, name);
  const char* at = field.bytes.data();
  const char* const end = at + field.bytes.size();
  while (at != end) {
    std::uint64_t id;
    if (!read_varint(at, end, id)) throw Broken(std::string(name) + " ends in the middle of a varint");
    into.push_back(id);
  }
}

std::int32_t Reader::intern(Index& index, std::vector<std::string>& values, std::string_view value) {
  const auto [place, added] = index.try_emplace(std::string(value), static_cast<std::int32_t>(values.size()));
  if (added) values.emplace_back(value);
  return place->second;
}

void Reader::finish() {
  if (broken_) throw Broken("the reader has failed before");
  if (!pending_.empty()) {
    throw Broken("byte " + std::to_string(offset_) + ": the file ends in the middle of a message, of which it has " +
                 std::to_string(pending_.size()) + " bytes");
  }
  check_ids();
  if (!control_) {
    std::vector<std::uint64_t>().swap(control_ids_);
    std::fill(columns.control_end.begin(), columns.control_end.end(), 0);
  }
  resolve(control_ids_, columns.control_end, columns.control, true);
  resolve(data_ids_, columns.data_end, columns.data, false);
  sort();
}

// Finds ids that are there twice, and makes `by_id_` if ids do not ascend.
void Reader::check_ids() {
  const std::vector<std::uint64_t>& id = columns.id;
  if (std::adjacent_find(id.begin(), id.end(), std::greater_equal<>()) == id.end()) return;
  by_id_.resize(id.size());
  std::iota(by_id_.begin(), by_id_.end(), 0u);
  std::stable_sort(by_id_.begin(), by_id_.end(), [&](std::uint32_t a, std::uint32_t b) { return id[a] < id[b]; });
  for (std::size_t place = 1; place < by_id_.size(); ++place) {
    const std::uint32_t a = by_id_[place - 1], b = by_id_[place];
    if (id[a] == id[b]) throw Broken(label(b) + ": its id is that of an earlier node, " + label(a) + "; expected ids that differ");
  }
}

bool Reader::find(std::uint64_t id, std::uint32_t& row) const {
  const std::vector<std::uint64_t>& ids = columns.id;
  if (by_id_.empty()) {
    const std::uint64_t guess = ids.empty() || id < ids[0] ? ids.size() : id - ids[0];
    if (guess < ids.size() && ids[guess] == id) {
      row = static_cast<std::uint32_t>(guess);
      return true;
    }
    const auto place = std::lower_bound(ids.begin(), ids.end(), id);
    row = static_cast<std::uint32_t>(place - ids.begin());
    return place != ids.end() && *place == id;
  }
  const auto place = std::lower_bound(by_id_.begin(), by_id_.end(), id, [&](std::uint32_t a, std::uint64_t b) { return ids[a] < b; });
  if (place == by_id_.end() || ids[*place] != id) return false;
  row = *place;
  return true;
}

// The rows of the nodes with these ids; the ids are given up.
void Reader::resolve(std::vector<std::uint64_t>& ids, std::vector<std::uint64_t>& ends, std::vector<std::uint32_t>& rows, bool control) {
  rows.reserve(ids.size());
  std::uint64_t begin = 0;
  for (std::size_t row = 0; row < ends.size(); ++row) {
    for (std::uint64_t place = begin; place < ends[row]; ++place) {
      std::uint32_t result;
      if (find(ids[place], result)) {
        rows.push_back(result);
      } else if (control && lenient_) {
        ++left_out;
      } else {
        throw Broken(label(row) + ": " + (control ? "control" : "data") + " dependency " + std::to_string(ids[place]) +
                     " is no node of the file");
      }
    }
    begin = ends[row];
    ends[row] = rows.size();
  }
  std::vector<std::uint64_t>().swap(ids);
}

template <typename Action>
void Reader::each_dependency(std::size_t row, bool control, const Action& action) const {
  const Columns& c = columns;
  for (std::uint64_t at = row ? c.control_end[row - 1] : 0; control && at < c.control_end[row]; ++at) action(c.control[at]);
  for (std::uint64_t at = row ? c.data_end[row - 1] : 0; at < c.data_end[row]; ++at) action(c.data[at]);
}

// Finds an order in which every node comes after its dependencies: of all such orders that in which the lowest ids come first.
void Reader::sort() {
  const std::size_t count = columns.id.size();
  bool in_order = by_id_.empty();
  for (std::size_t row = 0; row < count && in_order; ++row) {
    each_dependency(row, true, [&](std::uint32_t other) { in_order = in_order && other < row; });
  }
  if (in_order) return;
  std::vector<std::uint32_t> waits;
  columns.order = sorted(true, waits);
  if (columns.order.size() != count) throw Broken(circle(waits));
}

// Rows in an order of their dependencies, of control or by data alone, as far as there is one; `waits` are those that then are left.
std::vector<std::uint32_t> Reader::sorted(bool control, std::vector<std::uint32_t>& waits) const {
  const Columns& c = columns;
  const std::size_t count = c.id.size();
  waits.assign(count, 0);
  std::vector<std::uint64_t> child_end(count + 1, 0);
  for (std::size_t row = 0; row < count; ++row) {
    each_dependency(row, control, [&](std::uint32_t other) { ++waits[row], ++child_end[other + 1]; });
  }
  std::partial_sum(child_end.begin(), child_end.end(), child_end.begin());
  std::vector<std::uint32_t> children(child_end[count]);
  std::vector<std::uint64_t> next(child_end.begin(), child_end.end() - 1);
  for (std::size_t row = 0; row < count; ++row) {
    each_dependency(row, control, [&](std::uint32_t other) { children[next[other]++] = static_cast<std::uint32_t>(row); });
  }
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (std::size_t row = 0; row < count; ++row) {
    if (!waits[row]) ready.emplace(c.id[row], static_cast<std::uint32_t>(row));
  }
  std::vector<std::uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t row = ready.top().second;
    ready.pop();
    order.push_back(row);
    for (std::uint64_t at = child_end[row]; at < child_end[row + 1]; ++at) {
      if (!--waits[children[at]]) ready.emplace(c.id[children[at]], children[at]);
    }
  }
  return order;
}

// The remaining nodes wait for a cycle: from the first of it, remaining dependencies lead there.
std::string Reader::circle(const std::vector<std::uint32_t>& waits) const {
  std::vector<std::uint32_t> path;
  std::vector<std::size_t> seen(waits.size(), 0);
  std::uint32_t row = 0;
  while (!waits[row]) ++row;
  while (!seen[row]) {
    path.push_back(row);
    seen[row] = path.size();
    std::uint32_t following = row;
    bool result = false;
    each_dependency(row, true, [&](std::uint32_t other) {
      if (waits[other] && !result) following = other, result = true;
    });
    row = following;
  }
  path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(seen[row] - 1));
  std::string message = "dependencies in a circle: " + label(path[0]);
  for (std::size_t place = 1; place < path.size() && place < kCycleShown; ++place) message += ", which waits for " + label(path[place]);
  if (path.size() > kCycleShown) message += ", and " + std::to_string(path.size() - kCycleShown) + " more";
  message += ", which waits for the first";
  std::vector<std::uint32_t> left;
  if (sorted(false, left).size() == waits.size()) message += "; data dependencies alone have none (dependencies=data follows only those)";
  return message;
}

// The name of a node in messages: its id, and the beginning of its name in one line.
std::string Reader::label(std::size_t row) const {
  constexpr std::size_t shown = 60;
  const std::uint64_t begin = row ? columns.name_end[row - 1] : 0;
  std::string name = columns.names.substr(begin, columns.name_end[row] - begin);
  if (name.size() > shown) {
    std::size_t size = shown;
    while ((name[size] & 0xc0) == 0x80) --size;
    name = name.substr(0, size) + "...";
  }
  for (char& letter : name) {
    if (static_cast<unsigned char>(letter) < 0x20) letter = ' ';
  }
  return "node " + std::to_string(columns.id[row]) + " '" + name + "'";
}

}  // namespace astra::chakra
