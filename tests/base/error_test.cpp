// The shape of an error: id, parts and message.

#include <soma/base/contracts.hpp>
#include <soma/base/error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/base/version.hpp>

#include "catch.hpp"

#include <limits>
#include <type_traits>

using namespace soma;

TEST_CASE("an error names operation, argument, given and wanted", "[unit]") {
  const Error error(error_id::size_mismatch, "gemm", "b", "[256, 8]", "[300, n]");
  CHECK(error.id() == error_id::size_mismatch);
  CHECK(error.id().name == "convert.size_mismatch");
  CHECK(error.operation() == "gemm");
  CHECK(error.argument() == "b");
  CHECK(error.given() == "[256, 8]");
  CHECK(error.wanted() == "[300, n]");
  CHECK(std::string(error.what()) ==
        "gemm: b is [256, 8], wanted [300, n] [convert.size_mismatch]");
  CHECK(std::is_nothrow_copy_constructible_v<std::runtime_error>);
}

TEST_CASE("fail throws it", "[unit]") {
  try {
    fail(error_id::out_of_memory, "allocate", "size", "9", "less");
    FAIL("returned");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::out_of_memory);
  }
}

TEST_CASE("sizes that overflow are errors", "[unit]") {
  const std::size_t most = (std::numeric_limits<std::size_t>::max)();
  CHECK(checked_multiply(0, most, "test") == 0);
  CHECK(checked_multiply(most, 1, "test") == most);
  CHECK(checked_multiply(most / 2, 2, "test") == most - 1);
  CHECK(checked_add(most - 1, 1, "test") == most);
  const auto overflows = [](auto&& work) {
    try {
      static_cast<void>(work());
      return false;
    } catch (const Error& error) {
      return error.id() == error_id::size_overflow && error.operation() == "test";
    }
  };
  CHECK(overflows([&] { return checked_multiply(most / 2 + 1, 2, "test"); }));
  CHECK(overflows([&] { return checked_multiply(2, most / 2 + 1, "test"); }));
  CHECK(overflows([&] { return checked_add(most, 1, "test"); }));
}
