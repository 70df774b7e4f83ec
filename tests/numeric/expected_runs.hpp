// The encodings of all 2^32 floats as runs of consecutive bit patterns with the same code, found by
// bisection with the plain reference: 65536 runs for a 16-bit format instead of four billion
// results.
#pragma once

#include "reference_codec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace soma_test {

struct Run {
  std::uint64_t end;  // one past its last pattern
  std::uint32_t code;
};

class ExpectedRuns {
 public:
  ExpectedRuns(const FloatFormat& format, RoundingMode mode) : reference_(format), mode_(mode) {
    for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{0x80000000}}) {
      // Within a sign the codes of numbers change only where they grow, so equal codes are
      // neighbours. NaNs that keep a payload change with its kept bits, the others do not change.
      const std::uint64_t infinity_end = sign + 0x7F800001u;
      add_numbers(sign, infinity_end);
      const int dropped = format.specials == Specials::ieee ? 23 - format.mantissa_bits : 23;
      const std::uint64_t step = std::uint64_t{1} << dropped;
      for (std::uint64_t end = sign + 0x7F800000u + step; end <= sign + 0x80000000u; end += step)
        add(end, code_of(end - 1));
    }
  }

  const FloatFormat& format() const { return reference_.format(); }
  RoundingMode mode() const { return mode_; }
  const std::vector<Run>& runs() const { return runs_; }

  // Stores the codes of `count` patterns from `first` on. Calls must ascend in `first`;
  // start_over() begins anew.
  void store(std::uint64_t first, std::size_t count, std::byte* to) {
    while (runs_[next_].end <= first) ++next_;
    std::size_t run = next_;
    for (std::size_t done = 0; done < count; ++run) {
      const auto left = static_cast<std::size_t>(runs_[run].end - (first + done));
      const std::size_t length = std::min(left, count - done);
      fill(to, done, length, runs_[run].code);
      done += length;
    }
  }
  // The same for patterns in ascending order that need not be neighbours.
  void store(const std::vector<std::uint32_t>& patterns, std::byte* to) {
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      while (runs_[next_].end <= patterns[i]) ++next_;
      fill(to, i, 1, runs_[next_].code);
    }
  }
  void start_over() { next_ = 0; }

  // The patterns within `reach` of where the code changes, ascending, each once.
  std::vector<std::uint32_t> boundaries(std::uint64_t reach) const {
    std::vector<std::uint32_t> patterns;
    std::uint64_t next = 0;
    for (const Run& run : runs_)
      for (std::uint64_t p = std::max(next, run.end - std::min(run.end, reach));
           p < run.end + reach && p >> 32 == 0; ++p) {
        patterns.push_back(static_cast<std::uint32_t>(p));
        next = p + 1;
      }
    return patterns;
  }

 private:
  std::uint32_t code_of(std::uint64_t pattern) const {
    return reference_.encode_bits(static_cast<std::uint32_t>(pattern), mode_);
  }

  void add(std::uint64_t end, std::uint32_t code) {
    if (!runs_.empty() && runs_.back().code == code)
      runs_.back().end = end;
    else
      runs_.push_back({end, code});
  }

  void add_numbers(std::uint64_t first, std::uint64_t end) {
    std::uint64_t guess = 1;  // the length of the run before: mostly this one's too
    while (first < end) {
      const std::uint32_t code = code_of(first);
      std::uint64_t last = first, beyond = end;  // last has the code, beyond has not
      const std::uint64_t guessed = first + guess;
      if (guessed < end) (code_of(guessed) == code ? last : beyond) = guessed;
      if (beyond == guessed && code_of(guessed - 1) == code) last = guessed - 1;
      while (beyond - last > 1) {
        const std::uint64_t middle = last + (beyond - last) / 2;
        (code_of(middle) == code ? last : beyond) = middle;
      }
      add(beyond, code);
      guess = beyond - first;
      first = beyond;
    }
  }

  void fill(std::byte* to, std::size_t offset, std::size_t length, std::uint32_t code) const {
    if (format().bytes() == 1) {
      std::memset(to + offset, static_cast<int>(code), length);
      return;
    }
    const auto item = static_cast<std::uint16_t>(code);
    auto* items = reinterpret_cast<std::uint16_t*>(to);
    std::fill(items + offset, items + offset + length, item);
  }

  ReferenceCodec reference_;
  RoundingMode mode_;
  std::vector<Run> runs_;
  std::size_t next_ = 0;
};

}  // namespace soma_test
