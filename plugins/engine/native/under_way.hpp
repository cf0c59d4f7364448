// The record of messages that a network has and has not delivered, by their numbers.
//
// Numbers ascend, and most messages arrive nearly in the order in which they were sent. So they are in pages of consecutive numbers,
// from that of the first message under way to that of the last; a page without messages is used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

template <typename Record>
class UnderWay {
 public:
  std::size_t size() const { return size_; }

  // Keep Record{members...} of a message, whose number is above all before it.
  template <typename... Members>
  void add(std::uint64_t number, const Members&... members) {
    const std::uint64_t page = number / kPage;
    if (pages_.empty()) first_page_ = page;
    while (first_page_ + pages_.size() <= page) pages_.emplace_back();
    std::unique_ptr<Page>& last = pages_.back();
    if (!last) last = take_page();
    const std::size_t place = number % kPage;
    ::new (static_cast<void*>(&last->records[place])) Record{members...};
    last->present |= std::uint64_t{1} << place;
    ++size_;
  }

  // Take out the record of a message; nothing where none is under way that has this number.
  std::optional<Record> take(std::uint64_t number) {
    const std::uint64_t page = number / kPage - first_page_;
    if (page >= pages_.size() || !pages_[page]) return std::nullopt;
    Page& result = *pages_[page];
    const std::size_t place = number % kPage;
    const std::uint64_t bit = std::uint64_t{1} << place;
    if (!(result.present & bit)) return std::nullopt;
    const Record record = result.records[place];
    result.present &= ~bit;
    --size_;
    if (result.present == 0 && page + 1 < pages_.size()) {
      give_back(std::move(pages_[page]));
      while (pages_.size() > 1 && !pages_.front()) {
        pages_.pop_front();
        ++first_page_;
      }
    }
    return record;
  }

 private:
  static constexpr std::uint64_t kPage = 64;        // numbers of a page
  static constexpr std::size_t kSparePages = 1024;  // that are kept

  struct Page {
    std::uint64_t present = 0;  // a bit for each message that is under way
    std::array<Record, kPage> records;
  };

  std::unique_ptr<Page> take_page() {
    if (spare_.empty()) return std::make_unique<Page>();
    std::unique_ptr<Page> page = std::move(spare_.back());
    spare_.pop_back();
    return page;
  }

  void give_back(std::unique_ptr<Page> page) {
    if (spare_.size() < kSparePages) spare_.push_back(std::move(page));
    page.reset();
  }

  std::deque<std::unique_ptr<Page>> pages_;  // none where no message of a page is under way
  std::uint64_t first_page_ = 0;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Page>> spare_;
};

}  // namespace astra::engine
