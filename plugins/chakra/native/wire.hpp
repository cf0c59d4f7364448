// The protobuf wire format: varints, fixed numbers, and fields with a length. Everything it throws is a Broken.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace astra::chakra {

// An error in a file.
struct Broken : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

inline const char* wire_name(std::uint32_t type) {
  switch (type) {
    case kVarint:
      return "a varint";
    case kFixed64:
      return "64 bits";
    case kLength:
      return "bytes with a length";
    default:
      return "32 bits";
  }
}

// A field of a message: its number, and its value as a number or as bytes. `begin` is the position of its key.
struct Field {
  std::uint32_t number;
  std::uint32_t type;
  std::uint64_t value;
  std::string_view bytes;
  const char* begin;
};

// A varint that begins at `at`; bits beyond the 64th are left out, as protobuf does. Returns false where it goes on beyond `end`.
inline bool read_varint(const char*& at, const char* end, std::uint64_t& value) {
  value = 0;
  const char* next = at;
  for (int shift = 0; shift < 70; shift += 7) {
    if (next == end) return false;
    const auto byte = static_cast<unsigned char>(*next++);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      at = next;
      return true;
    }
  }
  throw Broken("a varint of more than 64 bits");
}

// The fields of a message, one after another.
class Message {
 public:
  explicit Message(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool next(Field& field) {
    if (at_ == end_) return false;
    field.begin = at_;
    const std::uint64_t key = varint();
    if (key >> 3 == 0 || key >> 32) throw Broken("a field of number " + std::to_string(key >> 3));
    field.number = static_cast<std::uint32_t>(key >> 3);
    field.type = static_cast<std::uint32_t>(key & 7);
    switch (field.type) {
      case kVarint:
        field.value = varint();
        break;
      case kFixed64:
        field.value = fixed(8);
        break;
      case kFixed32:
        field.value = fixed(4);
        break;
      case kLength:
        field.bytes = bytes();
        break;
      default:
        throw Broken("field " + std::to_string(field.number) + " has wire type " + std::to_string(field.type) + "; expected 0, 1, 2 and 5");
    }
    return true;
  }

  const char* position() const { return at_; }

 private:
  std::uint64_t varint() {
    std::uint64_t value;
    if (!read_varint(at_, end_, value)) throw Broken("a varint that goes on beyond the end of its message");
    return value;
  }

  std::uint64_t fixed(int size) {
    if (end_ - at_ < size) throw Broken("a number that goes on beyond the end of its message");
    std::uint64_t value = 0;
    for (int byte = 0; byte < size; ++byte) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(at_[byte])) << (8 * byte);
    at_ += size;
    return value;
  }

  std::string_view bytes() {
    const std::uint64_t size = varint();
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      throw Broken("a field of " + std::to_string(size) + " bytes where its message has " + std::to_string(end_ - at_) + " left");
    }
    const std::string_view result(at_, size);
    at_ += size;
    return result;
  }

  const char* at_;
  const char* end_;
};

inline void expect(const Field& field, std::uint32_t type, const char* name) {
  if (field.type != type) throw Broken(std::string(name) + " is " + wire_name(field.type) + "; expected " + wire_name(type));
}

// Whether bytes are UTF-8, as protobuf requires of text.
inline bool is_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = at + text.size();
  while (at != end) {
    const unsigned char first = *at++;
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
    for (int byte = 0; byte < more; ++byte) {
      if ((at[byte] & 0xc0) != 0x80) return false;
    }
    if ((first == 0xe0 && at[0] < 0xa0) || (first == 0xed && at[0] > 0x9f)) return false;
    if ((first == 0xf0 && at[0] < 0x90) || (first == 0xf4 && at[0] > 0x8f)) return false;
    at += more;
  }
  return true;
}

// The text of a field; `name` is the field's.
inline std::string_view text(const Field& field, const char* name) {
  expect(field, kLength, name);
  if (!is_utf8(field.bytes)) throw Broken(std::string(name) + " is not text in UTF-8");
  return field.bytes;
}

}  // namespace astra::chakra
