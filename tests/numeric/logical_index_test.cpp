// Logical indices: fields that do not overlap, and values that do not fit.
#include "catch.hpp"

#include <soma/numeric/logical_index.hpp>

#include <cstdint>
#include <string>

using soma::attention_index;
using soma::parameter_index;
using soma::token_index;

namespace {

constexpr std::uint64_t one = 1;
constexpr std::uint64_t largest(int bits) { return (one << bits) - 1; }

}  // namespace

TEST_CASE("token_index packs 24, 20 and 20 bits", "[unit]") {
  CHECK(token_index(0, 0, 0) == 0);
  CHECK(token_index(0, 0, 1) == 1);
  CHECK(token_index(0, 1, 0) == one << 20);
  CHECK(token_index(1, 0, 0) == one << 40);
  CHECK(token_index(0x123456, 0x789AB, 0xCDEF0) == 0x123456789ABCDEF0);
  CHECK(token_index(largest(24), largest(20), largest(20)) == ~std::uint64_t{0});
}

TEST_CASE("attention_index packs 24, 8, 16 and 16 bits", "[unit]") {
  CHECK(attention_index(0, 0, 0, 1) == 1);
  CHECK(attention_index(0, 0, 1, 0) == one << 16);
  CHECK(attention_index(0, 1, 0, 0) == one << 32);
  CHECK(attention_index(1, 0, 0, 0) == one << 40);
  CHECK(attention_index(0x123456, 0x78, 0x9ABC, 0xDEF0) == 0x123456789ABCDEF0);
  CHECK(attention_index(largest(24), largest(8), largest(16), largest(16)) == ~std::uint64_t{0});
}

TEST_CASE("parameter_index packs two words", "[unit]") {
  CHECK(parameter_index(0, 1) == 1);
  CHECK(parameter_index(1, 0) == one << 32);
  CHECK(parameter_index(0x12345678, 0x9ABCDEF0) == 0x123456789ABCDEF0);
  CHECK(parameter_index(largest(32), largest(32)) == ~std::uint64_t{0});
}

#if SOMA_HAS_EXCEPTIONS

namespace {

// Calls that must fail: which field, with what, and how wide it is.
template <class Call>
void check_refused(const char* operation, const char* field, int bits, Call&& call) {
  for (const std::uint64_t value : {one << bits, ~std::uint64_t{0}}) {
    try {
      call(value);
      FAIL(operation << " accepted " << field << " " << value);
    } catch (const soma::Error& error) {
      CHECK(error.id() == soma::error_id::index_range);
      CHECK(error.id().name == "random.index_range");
      CHECK(error.operation() == operation);
      CHECK(error.argument() == field);
      CHECK(error.given() == std::to_string(value));
      CHECK(error.wanted() == "below 2^" + std::to_string(bits));
    }
  }
}

}  // namespace

TEST_CASE("a value that does not fit its field is refused by name", "[unit]") {
  check_refused("token_index", "ordinal", 24, [](std::uint64_t v) { token_index(v, 0, 0); });
  check_refused("token_index", "position", 20, [](std::uint64_t v) { token_index(0, v, 0); });
  check_refused("token_index", "channel", 20, [](std::uint64_t v) { token_index(0, 0, v); });
  check_refused("attention_index", "ordinal", 24,
                [](std::uint64_t v) { attention_index(v, 0, 0, 0); });
  check_refused("attention_index", "head", 8, [](std::uint64_t v) { attention_index(0, v, 0, 0); });
  check_refused("attention_index", "query", 16,
                [](std::uint64_t v) { attention_index(0, 0, v, 0); });
  check_refused("attention_index", "key", 16, [](std::uint64_t v) { attention_index(0, 0, 0, v); });
  check_refused("parameter_index", "row", 32, [](std::uint64_t v) { parameter_index(v, 0); });
  check_refused("parameter_index", "column", 32, [](std::uint64_t v) { parameter_index(0, v); });
}

#endif
