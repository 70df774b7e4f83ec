// Counts wrong results of a loop and keeps the first few in words. A Catch2 assertion for each of a
// million values would take longer than the values; a loop ends in one CHECK_NONE instead. Main
// thread only, as Catch2 itself.
#pragma once

#include "catch.hpp"

#include <cstdint>
#include <sstream>
#include <string>

namespace soma_test {

class Mismatches {
 public:
  // Counts one comparison; `describe(stream)` runs only if it failed and only for the first few.
  template <class Describe>
  void expect(bool right, Describe&& describe) {
    ++compared_;
    if (right) return;
    if (++wrong_ > shown) return;
    describe(text_);
    text_ << '\n';
  }
  // Counts comparisons made elsewhere, all of them right.
  void count_right(std::uint64_t compared) { compared_ += compared; }

  std::uint64_t compared() const { return compared_; }
  std::uint64_t wrong() const { return wrong_; }
  std::string text() const {
    return std::to_string(wrong_) + " of " + std::to_string(compared_) + " wrong, the first:\n" +
           text_.str();
  }

 private:
  static constexpr std::uint64_t shown = 8;
  std::uint64_t compared_ = 0, wrong_ = 0;
  std::ostringstream text_;
};

}  // namespace soma_test

// A loop that compared nothing proves nothing, so that fails too.
#define CHECK_NONE(mismatches)          \
  do {                                  \
    INFO((mismatches).text());          \
    CHECK((mismatches).compared() > 0); \
    CHECK((mismatches).wrong() == 0);   \
  } while (false)
