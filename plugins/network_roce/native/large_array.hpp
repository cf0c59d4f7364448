// Arrays that are read in no order: where they are large they lie on large pages, so that few accesses look for an address in tables.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

namespace astra::roce {

// Memory of at least `kLeast` bytes begins on a large page, and the system is asked for such pages.
template <class T>
class LargePages {
 public:
  using value_type = T;

  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>&) {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kLeast) return static_cast<T*>(::operator new(bytes, std::align_val_t{alignof(T)}));
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, whole);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory, whole, MADV_HUGEPAGE);  // what it answers does not matter: small pages do as well
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kLeast) return ::operator delete(memory, std::align_val_t{alignof(T)});
    std::free(memory);
  }

  template <class Other>
  bool operator==(const LargePages<Other>&) const {
    return true;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{1} << 21;
  static constexpr std::size_t kLeast = std::size_t{1} << 19;
};

template <class T>
using LargeArray = std::vector<T, LargePages<T>>;

}  // namespace astra::roce
