// Rounding: names, default widths, and the accelerator's two environment switches.
#include "catch.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/numeric/rounding.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>

using soma::Rounding;
using soma::RoundingMode;

namespace {

constexpr const char* enable_name = "NEURON_RT_STOCHASTIC_ROUNDING_EN";
constexpr const char* seed_name = "NEURON_RT_STOCHASTIC_ROUNDING_SEED";

// Sets or, given nullptr, removes a variable; puts back what was there.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

soma::RoundingSwitches switches(const char* enable, const char* seed) {
  const Variable first(enable_name, enable), second(seed_name, seed);
  return Rounding::from_environment();
}

}  // namespace

static_assert(Rounding{} == Rounding::nearest_even);
static_assert(Rounding::stochastic.mode == RoundingMode::stochastic &&
              Rounding::stochastic.random_bits == 0);
static_assert(Rounding::up.mode == RoundingMode::up && Rounding::down.mode == RoundingMode::down);
static_assert(Rounding::toward_zero.mode == RoundingMode::toward_zero);
static_assert(Rounding::nearest_away.mode == RoundingMode::nearest_away);
static_assert(Rounding::up != Rounding::down);

TEST_CASE("modes have distinct names", "[unit]") {
  std::set<std::string_view> names;
  for (int mode = 0; mode <= static_cast<int>(RoundingMode::stochastic); ++mode)
    names.insert(to_string(static_cast<RoundingMode>(mode)));
  CHECK(names.size() == 6);
  CHECK(to_string(RoundingMode::nearest_even) == "nearest_even");
  CHECK(to_string(RoundingMode::stochastic) == "stochastic");
  CHECK(names.count("unknown") == 0);
}

TEST_CASE("16 random bits where normal numbers discard at most 16, else 32, unless told",
          "[unit]") {
  for (const auto& [name, format] : soma::named_formats) {
    INFO(name);
    const bool half = name == "bf16" || name == "fp16" || name == "tf32" || name == "fp32";
    CHECK(random_bits(Rounding::stochastic, format) == (half ? 16 : 32));
    CHECK(random_bits({RoundingMode::stochastic, 5}, format) == 5);
    CHECK(random_bits({RoundingMode::stochastic, 32}, format) == 32);
  }
}

TEST_CASE("without the variables rounding is nearest-even and the seed 0", "[unit]") {
  for (const char* absent : {static_cast<const char*>(nullptr), ""}) {
    const soma::RoundingSwitches read = switches(absent, absent);
    CHECK(read.rounding == Rounding::nearest_even);
    CHECK(read.seed == 0);
  }
}

TEST_CASE("the variables choose stochastic rounding and the seed", "[unit]") {
  CHECK(switches("1", nullptr).rounding == Rounding::stochastic);
  CHECK(switches("0", nullptr).rounding == Rounding::nearest_even);
  CHECK(switches("1", "42").seed == 42);
  CHECK(switches("0", "42").seed == 42);
  CHECK(switches("1", "0").seed == 0);
  CHECK(switches(nullptr, "18446744073709551615").seed == ~std::uint64_t{0});
}

TEST_CASE("they are read at the call", "[unit]") {
  const Variable seed(seed_name, nullptr);
  const Variable on(enable_name, "1");
  CHECK(Rounding::from_environment().rounding == Rounding::stochastic);
  {
    const Variable off(enable_name, "0");
    CHECK(Rounding::from_environment().rounding == Rounding::nearest_even);
  }
  CHECK(Rounding::from_environment().rounding == Rounding::stochastic);
}

#if SOMA_HAS_EXCEPTIONS

TEST_CASE("anything else in the variables is an error that quotes it", "[unit]") {
  for (const std::string text : {"2", "true", "on", "-1", "+1", " 1", "1 ", "0x1", "1.0"}) {
    try {
      switches(text.c_str(), nullptr);
      FAIL("accepted \"" << text << "\"");
    } catch (const soma::Error& error) {
      CHECK(error.id() == soma::error_id::environment_value);
      CHECK(error.operation() == "Rounding::from_environment");
      CHECK(error.argument() == enable_name);
      CHECK(error.given() == "\"" + text + "\"");
      CHECK(error.wanted() == "an integer from 0 to 1");
    }
  }
  for (const std::string text :
       {"-1", "seed", "1e3", "18446744073709551616", "99999999999999999999999", "7 "}) {
    try {
      switches(nullptr, text.c_str());
      FAIL("accepted \"" << text << "\"");
    } catch (const soma::Error& error) {
      CHECK(error.id() == soma::error_id::environment_value);
      CHECK(error.argument() == seed_name);
      CHECK(error.given() == "\"" + text + "\"");
      CHECK(error.wanted() == "an integer from 0 to 18446744073709551615");
    }
  }
}

#endif

TEST_CASE("more random bits than a word has are refused where they would be used", "[unit]") {
  using namespace soma;
  try {
    static_cast<void>(encode(formats::bf16, 1.01f, {RoundingMode::stochastic, 33}, 0));
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::random_bits);
    CHECK(error.given() == "33");
  }
  CHECK(encode(formats::bf16, 1.01f, {RoundingMode::nearest_even, 33}) ==
        encode(formats::bf16, 1.01f));
}
