#pragma once
// IntArrayRef: a reference to sizes in another object. A list in braces may mix integer types.

#include <soma/compat/processor.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace soma_compat {
inline namespace v2 {

namespace detail {

// An element of a list in braces: without this type, {n, t.size(0)} with a size_t n would be a
// narrowing conversion, which some compilers refuse.
struct Size {
  std::int64_t value;
  template <class T, std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>, int> = 0>
  Size(T size) : value(static_cast<std::int64_t>(size)) {}  // NOLINT: as a number
};
static_assert(sizeof(Size) == sizeof(std::int64_t));

}  // namespace detail

class IntArrayRef {
 public:
  using value_type = std::int64_t;

  IntArrayRef() = default;
  IntArrayRef(const std::int64_t* data, std::size_t count) : data_(data), count_(count) {}
  IntArrayRef(const std::vector<std::int64_t>& sizes)  // NOLINT: as sizes
      : data_(sizes.data()), count_(sizes.size()) {}
  // Valid during the whole expression of the list, as an argument is.
  IntArrayRef(const std::initializer_list<detail::Size>& sizes)  // NOLINT: as sizes
      : data_(sizes.size() == 0 ? nullptr : &sizes.begin()->value), count_(sizes.size()) {}

  const std::int64_t* data() const { return data_; }
  const std::int64_t* begin() const { return data_; }
  const std::int64_t* end() const { return data_ + count_; }
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::int64_t& operator[](std::size_t index) const { return data_[index]; }
  const std::int64_t& at(std::size_t index) const {
    if (index >= count_) detail::refuse("sizes", "an index beyond the rank", "one of a dimension");
    return data_[index];
  }
  const std::int64_t& front() const { return at(0); }
  const std::int64_t& back() const { return at(count_ - 1); }
  std::vector<std::int64_t> vec() const { return {begin(), end()}; }
  bool equals(IntArrayRef other) const {
    bool equal = count_ == other.count_;
    for (std::size_t i = 0; equal && i < count_; ++i) equal = data_[i] == other.data_[i];
    return equal;
  }
  friend bool operator==(IntArrayRef a, IntArrayRef b) { return a.equals(b); }
  friend bool operator!=(IntArrayRef a, IntArrayRef b) { return !a.equals(b); }

 private:
  const std::int64_t* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace v2
}  // namespace soma_compat
